"""Become one launch: the wrappers that stand where the server expects runnerd, or an agent's own command.

They run under `python3 -I -S`, standard library only: work out the run's scope from what the server says,
create what the domain cannot, write one journal line, restrict themselves and become the real program.
Nothing of them goes to the standard streams, which end in the run's own log.
"""
