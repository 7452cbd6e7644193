"""`inboxd webhooks replay`: sends a stored request again; its secret only if `--with-secret`."""

from typing import TYPE_CHECKING, Annotated

import typer

from inboxd.cli.options import Acting, actor
from inboxd.cli.webhook_send import Seconds, WithSecret, print_answer, refuse_to_reveal
from inboxd.model.row_id import read_row_id

if TYPE_CHECKING:
    from inboxd.operations.receipts import RequestAgain
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

    async def look(session: "Session") -> "RequestAgain":
        from inboxd import operations
        from inboxd.operations.receipts import request_again

        made = await request_again(session, given.settings, wanted, original=original)
        refuse_to_reveal(made.source, made.secret_header, url, with_secret=with_secret)
        await operations.sent_again(session, made.target, url, actor=who, reason=given.reason)
        return made

    made = given.ask(look)
    told = {
        "receipt": str(made.receipt_id),
        "source": made.source,
        "signed": "anew" if made.signed else "as it came",
    }
    print_answer(given, post(url, made.body, made.headers, timeout), told)
