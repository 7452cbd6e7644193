"""The gate: runs all stages of CI, looks at failed tests a second time, and says what is red.

It needs the standard library alone, since it makes the environments in which everything else runs.
`__main__` is the way from the first step to the exit code; `.ci/gate.toml` has what is run.
"""
