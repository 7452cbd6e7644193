"""The command line for tests, as `tests/cli` has it."""

from tests.cli.conftest import cli, run_cli, sql

# pytest finds fixtures by their names in this file.
__all__ = ["cli", "run_cli", "sql"]
