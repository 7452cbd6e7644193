"""Operators' actions and views: a module for each subject, shared by command line and screens.

Promises: an action on named rows changes all of them or none, an action on all matching rows works
page by page; each change is a legal transition, checked while the rows are locked and again by SQL
(promise 8); its audit entry is in the same transaction; workers are notified when the transaction
commits.
"""

from inboxd.operations.ability import (
    ReadOnlyReason,
    ReservedAction,
    read_only_reason,
    why_denied,
)
from inboxd.operations.archived_groups import archive_group, unarchive_group
from inboxd.operations.audit import (
    actions,
    acts_on,
    all_actions,
    seen_entry,
    sent_again,
    viewed,
)
from inboxd.operations.batch_details import Members, batch_details, batch_rows, members_of
from inboxd.operations.batches import (
    BatchEnded,
    cancel_batch,
    check_cancel,
    check_close,
    check_kind,
    close_batch,
    has_batches,
    resumable,
)
from inboxd.operations.breakers import force_breaker, one_breaker
from inboxd.operations.bulk import (
    ActionPreview,
    Selection,
    Terms,
    act_on_all,
    preview,
    read_selection,
)
from inboxd.operations.bulk_orders import (
    OrderTerms,
    Verb,
    one_order,
    order,
    orders,
    preview_all,
    told_order,
)
from inboxd.operations.consequences import Consequences, OthersTouched
from inboxd.operations.controls import (
    flush,
    flushable,
    pause,
    resume,
    unsubscribe,
    waiting_rows,
)
from inboxd.operations.details import alone, details
from inboxd.operations.edits import (
    CommandEdit,
    EditedField,
    edit_command,
    editable,
    preview_edit,
)
from inboxd.operations.endpoints import (
    SeenDeliveries,
    add_endpoint,
    change_endpoint,
    deliveries,
    disable_endpoint,
    enable_endpoint,
    failed_of,
    one_endpoint,
    remove_endpoint,
    resend_deliveries,
    resendable,
    rotate_endpoint,
    send_to_endpoint,
)
from inboxd.operations.enqueued import Enqueued, enqueued_by
from inboxd.operations.failures import Group, failures
from inboxd.operations.filters import containing, names_of, read_filter
from inboxd.operations.finding import Found, find, search
from inboxd.operations.held_rows import Done, ExpectedRows, RowId
from inboxd.operations.labels import Tenants, declared_labels, label_rows, type_labels
from inboxd.operations.lately import SpanFigures, done_lately
from inboxd.operations.lookup import Hit, look_up
from inboxd.operations.messages import one_stream, reset_stream
from inboxd.operations.names import Named, check_declared, check_known, remarks, unknown
from inboxd.operations.order_controls import (
    abort_order,
    check_control,
    pause_order,
    resume_order,
)
from inboxd.operations.rows import (
    Action,
    Move,
    act,
    movable,
    prioritize,
    replay_with,
    reschedule,
    told,
)
from inboxd.operations.story import (
    Story,
    created_by,
    mark_replayed,
    origin_of,
    replays_of,
    trace,
    waits_of,
)
from inboxd.operations.waiting import why

__all__ = [
    "Action",
    "ActionPreview",
    "BatchEnded",
    "CommandEdit",
    "Consequences",
    "Done",
    "EditedField",
    "Enqueued",
    "ExpectedRows",
    "Found",
    "Group",
    "Hit",
    "Members",
    "Move",
    "Named",
    "OrderTerms",
    "OthersTouched",
    "ReadOnlyReason",
    "ReservedAction",
    "RowId",
    "SeenDeliveries",
    "Selection",
    "SpanFigures",
    "Story",
    "Tenants",
    "Terms",
    "Verb",
    "abort_order",
    "act",
    "act_on_all",
    "actions",
    "acts_on",
    "add_endpoint",
    "all_actions",
    "alone",
    "archive_group",
    "batch_details",
    "batch_rows",
    "cancel_batch",
    "change_endpoint",
    "check_cancel",
    "check_close",
    "check_control",
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
    "done_lately",
    "edit_command",
    "editable",
    "enable_endpoint",
    "enqueued_by",
    "failed_of",
    "failures",
    "find",
    "flush",
    "flushable",
    "force_breaker",
    "has_batches",
    "label_rows",
    "look_up",
    "mark_replayed",
    "members_of",
    "movable",
    "names_of",
    "one_breaker",
    "one_endpoint",
    "one_order",
    "one_stream",
    "order",
    "orders",
    "origin_of",
    "pause",
    "pause_order",
    "preview",
    "preview_all",
    "preview_edit",
    "prioritize",
    "read_filter",
    "read_only_reason",
    "read_selection",
    "remarks",
    "remove_endpoint",
    "replay_with",
    "replays_of",
    "reschedule",
    "resend_deliveries",
    "resendable",
    "reset_stream",
    "resumable",
    "resume",
    "resume_order",
    "rotate_endpoint",
    "search",
    "seen_entry",
    "send_to_endpoint",
    "sent_again",
    "told",
    "told_order",
    "trace",
    "type_labels",
    "unarchive_group",
    "unknown",
    "unsubscribe",
    "viewed",
    "waiting_rows",
    "waits_of",
    "why",
    "why_denied",
]
