"""What an operator may do: a module for each subject, shared by the command line and the screens.

`rows` acts on rows that are named, `bulk` on all that match, `batches` on batches and workflows,
`controls` on types, topics, queues and schedules, `breakers` on breakers, `endpoints` on those who
get webhooks, `messages` on streams of brokers; `erase` erases what is known of somebody;
`uninstall` takes inboxd out of a database.
`overview`, `figures`, `charts`, `totals`, `finding`, `details`, `enqueued`, `failures`, `story` and
`audit` are read; `labels` says what ids are called; `names` judges names that an operator gives.

Promises: an action on rows that are named is done to all of them or to none, one on all that match
page by page; it is a legal transition, judged while the rows are locked and refused by SQL as well
(promise 8); it is audited in the transaction that does it; workers are woken when that commits.
"""

from inboxd.operations.audit import actions, all_actions, sent_again, viewed
from inboxd.operations.batches import BatchEnded, cancel_batch, check_kind, close_batch, resumable
from inboxd.operations.breakers import force_breaker, one_breaker
from inboxd.operations.bulk import ActionPreview, Selection, Terms, act_on_all, preview
from inboxd.operations.controls import flush, pause, resume, unsubscribe
from inboxd.operations.details import details
from inboxd.operations.endpoints import (
    add_endpoint,
    change_endpoint,
    deliveries,
    disable_endpoint,
    enable_endpoint,
    failed_of,
    one_endpoint,
    remove_endpoint,
    resend_deliveries,
    rotate_endpoint,
    send_to_endpoint,
)
from inboxd.operations.enqueued import Enqueued, enqueued_by
from inboxd.operations.failures import Group, failures
from inboxd.operations.filters import containing, names_of, read_filter
from inboxd.operations.finding import Found, find, search
from inboxd.operations.labels import Tenants, declared_labels, label_rows, type_labels
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
    "Enqueued",
    "Found",
    "Group",
    "Named",
    "RowId",
    "Selection",
    "Story",
    "Tenants",
    "Terms",
    "act",
    "act_on_all",
    "actions",
    "add_endpoint",
    "all_actions",
    "cancel_batch",
    "change_endpoint",
    "check_declared",
    "check_kind",
    "check_known",
    "close_batch",
    "containing",
    "created_by",
    "declared_labels",
    "deliveries",
    "details",
    "disable_endpoint",
    "enable_endpoint",
    "enqueued_by",
    "failed_of",
    "failures",
    "find",
    "flush",
    "force_breaker",
    "label_rows",
    "names_of",
    "one_breaker",
    "one_endpoint",
    "pause",
    "preview",
    "prioritize",
    "read_filter",
    "remarks",
    "remove_endpoint",
    "replays_of",
    "reschedule",
    "resend_deliveries",
    "reset_stream",
    "resumable",
    "resume",
    "rotate_endpoint",
    "search",
    "send_to_endpoint",
    "sent_again",
    "told",
    "trace",
    "type_labels",
    "unknown",
    "unsubscribe",
    "viewed",
    "waits_of",
]
