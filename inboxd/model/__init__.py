"""Pure rules and values: the legal changes of a row, and their consequences.

Owns the decisions, in the standard library only. Promises: no I/O, and no clock or randomness
except those that the caller passes in; `uuid7` is the exception.
"""
