"""The command line: a module for each group of commands, `app` to put them together.

Owns what an operator types and reads (docs/cli.md). Promises: an error is one clear message on
standard error and a documented exit code, without a traceback unless `--debug` asks for it; data
goes to standard output, and `--json` makes it readable by programs.
Known limit: a command imports what it needs when it runs, so that `--help` and shell completion
stay fast; a broken installation shows only then.
"""

from inboxd.cli.app import main

__all__ = ["main"]
