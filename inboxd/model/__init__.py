"""Pure rules and values: what may happen to a row, and what follows from what.

Owns the decisions, in the standard library only. Promises: no I/O, and no clock or randomness
except those that the caller passes in; `uuid7` is the exception.
"""
