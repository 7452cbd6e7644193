"""Cases of webhooks that are erased by a text."""

from tests.plans.statements.case import Case, run

OPERATOR: dict[str, tuple[Case, tuple[str, ...]]] = {
    "match_receipts": (run("match_receipts", b"text", None, 10), ()),
    "held_among": (
        run("held_among", lambda k: [k.one("receipts")]),
        ("held_receipts_receipt",),
    ),
    "erase_broken": (run("erase_broken", lambda k: [k.one("events_history")], "[]"), ()),
}
