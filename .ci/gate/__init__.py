"""The gate: runs all stages of CI, runs failed tests a second time, and reports red tests.

It uses only the standard library, since it makes the environments in which everything else runs.
`__main__` has the steps from the first to the exit code; `.ci/gate.toml` has what is run.
"""
