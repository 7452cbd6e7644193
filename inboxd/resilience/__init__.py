"""What to do while a target is down: the rules of breakers, without any I/O.

`rules` says when a breaker opens and for how long, `window` counts calls, `breaker` decides. The
time is passed in; who writes states down and reads them is `inboxd.engine.breakers` (ADR 25).
"""
