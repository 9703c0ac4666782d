"""The launcher: hide paths from a command by a Landlock domain, prove it, become the command.

Standard library only, and only the cheap part of it: this room runs under `python3 -I -S` between a
server and each of its agents, where every import is paid once per launch. Paths are bytes. It decides
nothing about runs: which paths to hide is the caller's.
"""
