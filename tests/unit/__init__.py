"""Rules on their own: no kernel, network, clock or process; a guard in `conftest.py` sees to it."""
