"""The loopback gateway between a cell and its provider: it holds the real key and limits what is spent.

Owns the exchange with the provider, counting and pricing. It judges no cell: it says when a limit is
passed, and leaves a record.
"""
