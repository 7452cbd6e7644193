"""Chaos: workers, producers and faults side by side; then everything is counted.

`schedule` decides purely, from a seed, which fault happens when. `load` decides as purely what is
written. `producers`, `fleet` and `faults` do it, against a server and processes of their own.
`verdict` holds the promises against what is left. `run` is all of it in order; `python -m
tests.chaos` and `make chaos` run it.
"""
