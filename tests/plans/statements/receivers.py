# ruff: noqa: ARG005 - all cases take the same arguments, whether they need them or not
"""Cases of receipts from HTTP, and of held receipts."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from inboxd.model.lineage import uuid7
from inboxd.store import receipts
from inboxd.store.session import Session
from tests.plans.filling import Known
from tests.plans.statements.case import Case, run
from tests.support.receipts import receipt, received

_SINCE = [datetime(1970, 1, 1, tzinfo=UTC)] * 2


def _receive(source: str, **event: str) -> Case:
    async def case(session: Session, _: Known) -> None:
        page = [receipt(received("few", **event), source=source) for _ in range(10)]
        await receipts.write(session, page)

    return case


LOOKS: dict[str, tuple[Case, tuple[str, ...]]] = {
    "list_receipts": (lambda s, k: receipts.page(s, limit=10), ()),
    "list_receipts of a source": (lambda s, k: receipts.page(s, "big", limit=10), ()),
    "list_receipts, the next page": (
        lambda s, k: receipts.page(s, "big", after=k.one("receipts"), limit=10),
        (),
    ),
    "erase_receipts": (run("erase_receipts", lambda k: [k.one("receipts")]), ()),
    "erase_scan_held": (
        run("erase_scan_held", "a", None, None, UUID(int=0), 10),
        ("held_receipts_receipt",),
    ),
    "erase_held": (
        run("erase_held", "a", None, None, lambda k: [k.one("receipts")]),
        ("held_receipts_receipt",),
    ),
    "show_receipts": (lambda s, k: receipts.one(s, k.one("receipts"), raw=True), ()),
    "event_statuses": (
        lambda s, k: s.fetch(
            "event_statuses", [uuid7()] * 2, [k.one("events"), k.one("events_history")], _SINCE
        ),
        ("events_event_id",),
    ),
}
RECEIVER: dict[str, tuple[Case, tuple[str, ...]]] = {
    "receive": (_receive("few"), ("held_sources_pkey", "controls_pkey")),
    "receive, in a line": (_receive("few", topic="lines", ordering_key="k1"), ()),
    "receive, broken": (_receive("few", broken="not JSON"), ("events_event_id",)),
    "receive, known": (_receive("few", dedup_key="7"), ("dedup_pkey", "events_event_id")),
    "receive, held": (_receive("held"), ("held_sources_pkey",)),
    "release_receipts": (run("release_receipts", "held", 0, 10), ("held_receipts_pkey",)),
    "answered": (run("answered", lambda k: [k.one("receipts")]), ()),
    "make_receipt_days": (run("make_receipt_days", lambda k: [uuid7()]), ()),
    "commit_nothing": (lambda s, k: receipts.commit(s), ()),
    "erased": (
        run("erased", ["tenant=a"], _SINCE[0]),
        ("audit_erased",),
    ),
    "keep_receipts": (run("keep_receipts", _SINCE[0], _SINCE[0] + timedelta(days=1)), ()),
    "held_sources": (lambda s, k: receipts.held(s), ()),
}
