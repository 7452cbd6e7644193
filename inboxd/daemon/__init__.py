"""The daemon: the composition root, the process around it, a worker inside another program."""

from inboxd.daemon.inside import worker
from inboxd.daemon.process import run

__all__ = ["run", "worker"]
