"""The registry, built once at start: entry points, with the settings laid over what they declare.

Owns what is found wrong there: all of it, at once, before a row is claimed. Each section of the
settings is an overlay, from a registry to another: `with_topics`, `with_types`, `with_schedules`,
`serving`; it adds what is wrong to a list, and goes on.
"""
