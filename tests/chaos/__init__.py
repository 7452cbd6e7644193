"""Chaos: workers, producers and faults side by side; then everything is counted.

`schedule` derives the faults and their times from a seed. `load` derives the written rows from it.
Both are pure. `producers`, `fleet` and `faults` carry them out, on a server and processes of their
own. `verdict` checks the promises on the remaining rows. `run` does all of it in order; `python -m
tests.chaos` and `make chaos` start it.
"""
