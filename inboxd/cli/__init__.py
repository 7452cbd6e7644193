"""The command line: a module for each group of commands; `inboxd.main` assembles them.

An error is one clear message on standard error and a documented exit code, with a traceback only
under `--debug`; `--json` prints data for programs. Commands import their modules when they run,
which keeps `--help` and shell completion fast; a broken installation is noticed only then.
"""
