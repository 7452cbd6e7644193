"""What an operator may do: a module for each action, shared by the command line and the screens.

Promises: an action on rows that are named is done to all of them or to none, one on all that match
page by page; it is a legal transition, judged while the rows are locked and refused by SQL as well
(promise 8); it is audited in the transaction that does it; workers are woken when that commits.
"""

from inboxd.operations.auditing import actions
from inboxd.operations.cancelling import Cancelled, cancel, cancel_matching
from inboxd.operations.dismissing import dismiss, dismiss_matching
from inboxd.operations.failures import Group, failures
from inboxd.operations.flushing import flush
from inboxd.operations.grouping import BatchEnded, cancel_batch, check_kind, close_batch, resumable
from inboxd.operations.many import Action, ActionPreview, Selection, Terms, preview, preview_named
from inboxd.operations.naming import Named, check_declared, check_known, unknown
from inboxd.operations.pausing import pause, resume
from inboxd.operations.replaying import Replayed, replay, replay_matching
from inboxd.operations.rows import RowId
from inboxd.operations.subscribing import unsubscribe
from inboxd.operations.timing import reprioritize, reschedule
from inboxd.operations.tracing import Story, created_by, replays_of, trace, waits_of

__all__ = [
    "Action",
    "ActionPreview",
    "BatchEnded",
    "Cancelled",
    "Group",
    "Named",
    "Replayed",
    "RowId",
    "Selection",
    "Story",
    "Terms",
    "actions",
    "cancel",
    "cancel_batch",
    "cancel_matching",
    "check_declared",
    "check_kind",
    "check_known",
    "close_batch",
    "created_by",
    "dismiss",
    "dismiss_matching",
    "failures",
    "flush",
    "pause",
    "preview",
    "preview_named",
    "replay",
    "replay_matching",
    "replays_of",
    "reprioritize",
    "reschedule",
    "resumable",
    "resume",
    "trace",
    "unknown",
    "unsubscribe",
    "waits_of",
]
