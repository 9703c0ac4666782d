"""Become one launch: the wrapper that stands where the server expects runnerd.

Runs under `python3 -I -S`, standard library only: works out the run's scope from runnerd's arguments,
creates what the domain cannot, writes one journal line, restricts itself and becomes the real runnerd.
Nothing of it goes to the standard streams, which end in the run's own log.
"""
