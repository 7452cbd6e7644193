"""`inboxd webhooks replay`: sends a stored request again, to any URL.

Promises: the body is sent exactly as it came; it is signed anew if the settings have a key of its
source that can sign, since a receiver refuses an old signature as stale; its id stays, so a
receiver that has it takes it for a duplicate. A secret in the request itself, such as a bearer
token, is sent only with `--with-secret`. The audit records actor, receipt and URL.
"""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from inboxd.cli.options import Acting, actor
from inboxd.cli.receipts import body_of, headers_of, receipt_of
from inboxd.cli.webhook_send import (
    Seconds,
    WithSecret,
    print_answer,
    refuse_to_reveal,
    verifier_for,
)
from inboxd.errors import UsageError
from inboxd.model.row_id import read_row_id

if TYPE_CHECKING:
    from inboxd.settings import Settings
    from inboxd.store.receipts import ReceiptRow
    from inboxd.store.session import Session


def replay(
    which: Annotated[
        str,
        typer.Argument(
            metavar="EVENT|RECEIPT",
            help="The receipt's id, or the number or id of one of its events.",
            show_default=False,
        ),
    ],
    url: Annotated[
        str, typer.Option(metavar="URL", help="The URL to send it to.", show_default=False)
    ],
    *,
    original: Annotated[
        bool,
        typer.Option("--original", help="Send the received headers; do not sign anew."),
    ] = False,
    with_secret: WithSecret = False,
    timeout: Seconds = 30,
    given: Acting,
) -> None:
    """Send a stored request again, to any URL; sign it anew if the settings have a key."""
    from inboxd.cli.posting import parts_of, post

    wanted, who = read_row_id(which), actor()
    parts_of(url)

    async def look(session: "Session") -> "tuple[ReceiptRow, dict[str, str]]":
        from inboxd import operations

        row = await receipt_of(session, wanted, raw=True)
        body = body_of(row)
        signed = (
            {} if original else _signed(given.settings, row, body, url, with_secret=with_secret)
        )
        target = f"receipt {row['receipt_id']}"
        await operations.sent_again(session, target, url, actor=who, reason=given.reason)
        return row, signed

    row, signed = given.ask(look)
    body, kept = body_of(row), headers_of(row)
    headers = {"content-type": row["content_type"], **kept, **signed}
    told = {
        "receipt": str(row["receipt_id"]),
        "source": row["source"],
        "signed": "anew" if signed else "as it came",
    }
    sent = {name: value for name, value in headers.items() if value is not None}
    print_answer(given, post(url, body, sent, timeout), told)


def _signed(
    settings: "Settings", row: "ReceiptRow", body: bytes, url: str, *, with_secret: bool
) -> dict[str, str]:
    """Return the headers of a new signature; empty if the settings have no key that can sign.

    Raises UsageError if the headers would reveal a secret to the URL.
    """
    source = settings.inbound.webhooks.get(row["source"])
    if source is None:
        return {}
    verifier = verifier_for(row["source"], source)
    kind, _, name = (verifier.default_dedup_key or "").partition(":")
    id_ = headers_of(row).get(name) if kind == "header" else None
    try:
        signed = verifier.sign(body, id_ or str(row["receipt_id"]), time.time())
    except UsageError:
        return {}
    refuse_to_reveal(row["source"], verifier, signed, url, with_secret=with_secret)
    return signed
