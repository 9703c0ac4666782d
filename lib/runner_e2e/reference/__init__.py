"""The embedded control plane and its scripted agent, for demo, tests and chaos only.

Owns a small server with the real product's instance layout, REST bodies and launch contract, so
that one harness drives both. It knows nothing of sandboxes, cells or verdicts.
"""
