"""The registry, built once at start: entry points, with the settings laid over their declarations.

Each section of the settings is an overlay from a registry to another: `with_topics`, `serving`. It
appends its problems to a list, and continues, so that all mistakes are found at once.
"""
