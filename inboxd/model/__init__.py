"""Pure rules and values: what may happen to a row, and what follows from what.

Owns the decisions, in the standard library only. Promises: no I/O, no clock and no randomness
that the caller did not pass in, `uuid7` excepted.
"""
