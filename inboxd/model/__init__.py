"""Pure rules and values: the legal changes of a row, and their consequences.

Standard library only; no I/O. Clocks and randomness are passed in; `uuid7` is the exception.
"""
