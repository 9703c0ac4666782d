"""A scripted model: an endpoint of OpenAI's chat calls on loopback that plays a file per agent.

Real agents act by it deterministically and at no cost. It knows nothing of cells or of the product.
"""
