"""The command line: a module for each group of commands; `app` assembles them.

Owns what an operator types and reads (docs/command-line.md). Promises: an error is one clear
message on standard error and a documented exit code, with a traceback only under `--debug`; data
goes to standard output, and `--json` prints it for programs.
Known limit: commands import their modules when they run, which keeps `--help` and shell completion
fast; a broken installation is noticed only then.
"""

from inboxd.cli.app import main

__all__ = ["main"]
