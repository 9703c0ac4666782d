"""Examine this machine before anything is paid for: observe in one module a kind, judge apart from it.

Changes nothing that stays, and reaches a network only through what the caller hands in.
"""
