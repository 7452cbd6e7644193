"""The registry, built once at start: entry points, with the settings laid over their declarations.

Owns the mistakes found there: all of them, at once, before a row is claimed. Each section of the
settings is an overlay, a function from a registry to another: `with_topics`, `with_types`,
`with_schedules`, `serving`; it appends its problems to a list, and continues.
"""
