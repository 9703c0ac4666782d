"""The real product on this machine: Paperclip, its runnerd, OpenCode, and the Node they run on.

Installs them from committed locks into a cache outside the work tree, and finds what is installed there.
Starts no server and knows nothing of cells.
"""
