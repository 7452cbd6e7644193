"""Run a plugin's handlers in its tests, without PostgreSQL and without a daemon.

Owns the names: `run_event`, `run_command`, `run_list` and, for what receives events,
`MemoryRecord`. What they promise is in `inboxd.testing.running`.
"""

from inboxd.testing.dedup import MemoryRecord
from inboxd.testing.lists import run_list
from inboxd.testing.running import Result, run_command, run_event
from inboxd.testing.sent import Sent, SentBatch, SentStep

__all__ = [
    "MemoryRecord",
    "Result",
    "Sent",
    "SentBatch",
    "SentStep",
    "run_command",
    "run_event",
    "run_list",
]
