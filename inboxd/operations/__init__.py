"""What an operator may do: a module for each subject, shared by the command line and the screens.

`rows` acts on rows that are named, `bulk` on all that match, `batches` on batches and workflows,
`controls` on types, topics, queues and schedules, `breakers` on breakers, `endpoints` on those who
get webhooks, `messages` on streams of brokers; `erase` erases what is known of somebody;
`uninstall` takes inboxd out of a database.
`details`, `failures`, `story` and `audit` are read; `names` judges names that an operator gives.

Promises: an action on rows that are named is done to all of them or to none, one on all that match
page by page; it is a legal transition, judged while the rows are locked and refused by SQL as well
(promise 8); it is audited in the transaction that does it; workers are woken when that commits.
"""

from inboxd.operations.audit import actions, sent_again
from inboxd.operations.batches import BatchEnded, cancel_batch, check_kind, close_batch, resumable
from inboxd.operations.breakers import force_breaker, one_breaker
from inboxd.operations.bulk import ActionPreview, Selection, Terms, act_on_all, preview
from inboxd.operations.controls import flush, pause, resume, unsubscribe
from inboxd.operations.details import details
from inboxd.operations.endpoints import (
    add_endpoint,
    change_endpoint,
    disable_endpoint,
    enable_endpoint,
    failed_of,
    one_endpoint,
    remove_endpoint,
    resend_deliveries,
    rotate_endpoint,
    send_to_endpoint,
)
from inboxd.operations.failures import Group, failures
from inboxd.operations.messages import reset_stream
from inboxd.operations.names import Named, check_declared, check_known, remarks, unknown
from inboxd.operations.rows import (
    Action,
    Done,
    RowId,
    act,
    prioritize,
    reschedule,
    told,
)
from inboxd.operations.story import Story, created_by, replays_of, trace, waits_of

__all__ = [
    "Action",
    "ActionPreview",
    "BatchEnded",
    "Done",
    "Group",
    "Named",
    "RowId",
    "Selection",
    "Story",
    "Terms",
    "act",
    "act_on_all",
    "actions",
    "add_endpoint",
    "cancel_batch",
    "change_endpoint",
    "check_declared",
    "check_kind",
    "check_known",
    "close_batch",
    "created_by",
    "details",
    "disable_endpoint",
    "enable_endpoint",
    "failed_of",
    "failures",
    "flush",
    "force_breaker",
    "one_breaker",
    "one_endpoint",
    "pause",
    "preview",
    "prioritize",
    "remarks",
    "remove_endpoint",
    "replays_of",
    "reschedule",
    "resend_deliveries",
    "reset_stream",
    "resumable",
    "resume",
    "rotate_endpoint",
    "send_to_endpoint",
    "sent_again",
    "told",
    "trace",
    "unknown",
    "unsubscribe",
    "waits_of",
]
