"""Decisions while a target is down: the rules of breakers, without any I/O.

`rules` defines when a breaker opens and for how long, `window` counts calls, `breaker` decides.
Time is passed in; `inboxd.engine.breakers` writes and reads the states (ADR 25).
"""
