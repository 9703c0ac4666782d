"""Pure rules: what a launch hides and exposes, and which variables a child gets.

Nothing here touches the disk, a process or the network. `paths` is standard library only, because the
wrapper in front of runnerd uses it between a server and each of its agents.
"""
