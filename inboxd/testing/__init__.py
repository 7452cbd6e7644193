"""Run a plugin's handlers in its tests, without PostgreSQL and without a daemon.

Owns the names: `run_event`, `run_command` and `run_chunk`, and what their results hold. What they
promise is in `inboxd.testing.running`.
"""

from inboxd.model.outcome import Dead, Deferred, Failure, Outcome, Retrying, Succeeded
from inboxd.testing.chunks import run_chunk
from inboxd.testing.running import Result, run_command, run_event
from inboxd.testing.sent import EmittedEvent, SentBatch, SentCommand, SentStep

__all__ = [
    "Dead",
    "Deferred",
    "EmittedEvent",
    "Failure",
    "Outcome",
    "Result",
    "Retrying",
    "SentBatch",
    "SentCommand",
    "SentStep",
    "Succeeded",
    "run_chunk",
    "run_command",
    "run_event",
]
