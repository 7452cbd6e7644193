"""The daemon: the composition root, the process around it, a worker inside another program."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inboxd.daemon.inside import worker
    from inboxd.daemon.starting import administer, receive, run

__all__ = ["administer", "receive", "run", "worker"]

_HOMES = {"administer": "starting", "receive": "starting", "run": "starting", "worker": "inside"}


# Hidden from type checkers: they would accept any misspelt name if they saw a __getattr__.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if (home := _HOMES.get(name)) is not None:
            return getattr(import_module(f"inboxd.daemon.{home}"), name)
        raise AttributeError(f"module 'inboxd.daemon' has no attribute {name!r}")
