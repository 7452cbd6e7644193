"""The daemon: the composition root, and the process around it."""

from inboxd.daemon.process import run

__all__ = ["run"]
