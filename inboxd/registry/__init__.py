"""The registry, built once at start: entry points, with the settings laid over what they declare.

Owns what is found wrong there: all of it, at once, before a row is claimed.
"""
