"""Prove the isolation before each server start: fixture, checks, observation inside a domain, verdict.

The probe goes through the production wrappers, as the production user and with its privileges. It
decides no policy: it only finds out what holds.
"""
