"""What an operator may do: a module for each action, shared by the command line and the screens.

Promises: an action on several rows is done to all of them or to none; it is a legal transition,
judged while the rows are locked and refused by SQL as well (promise 8); it is audited in the
transaction that does it; workers are woken when that commits, since no INSERT wakes them.
"""

from inboxd.operations.cancelling import Cancelled, cancel
from inboxd.operations.grouping import BatchEnded, cancel_batch, close_batch
from inboxd.operations.pausing import pause, resume
from inboxd.operations.retrying import retry
from inboxd.operations.rows import RowId
from inboxd.operations.timing import reprioritize, reschedule
from inboxd.operations.tracing import Story, created_by, replays_of, trace

__all__ = [
    "BatchEnded",
    "Cancelled",
    "RowId",
    "Story",
    "cancel",
    "cancel_batch",
    "close_batch",
    "created_by",
    "pause",
    "replays_of",
    "reprioritize",
    "reschedule",
    "resume",
    "retry",
    "trace",
]
