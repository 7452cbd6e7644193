"""Sends a stored webhook again, to an address that the visitor gives.

Promises: a form sends once, in any process, and is in the audit before anything is sent; it reaches
only addresses that deliveries may reach; it sends neither hidden contents nor a secret of a new
signature. Known limit: the request waits for the answer, and shows only its status.
"""

from collections.abc import Iterator
from http import HTTPStatus
from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit

import anyio
import orjson
from starlette.datastructures import QueryParams

from inboxd import operations
from inboxd.admin.answers import RequestRefused
from inboxd.admin.redaction import redaction_of
from inboxd.admin.screens.actions.contract import (
    ActionTold,
    ActionVisit,
    AskedField,
    Look,
    Question,
    ScreenAction,
    Sentence,
    tell,
    way_back,
)
from inboxd.admin.screens.roles import Role
from inboxd.errors import Conflict, TargetRefused, TargetUnreachable, UsageError
from inboxd.model.row_id import read_row_id
from inboxd.model.wording import size
from inboxd.operations.receipts import RequestAgain, events_of, request_again
from inboxd.outbound.addresses import Allowed
from inboxd.settings.outbound import OutboundWebhooks
from inboxd.signatures.sources import verifier_for

# To wait for the receiver's answer, and then to make the page.
_SECONDS: Final = 10.0
_PAGE_SECONDS: Final = 3.0
# The hundreds of a status that says the request was taken.
_SUCCESS: Final = 2
# At most this number of a receipt's events has its types looked up.
_MOST_EVENTS: Final = 100


async def _request(visit: ActionVisit) -> RequestAgain:
    """Raises NotFound, or Conflict if the screens hide a part of it."""
    id_, settings = read_row_id(visit.named("id")), visit.settings
    original = bool(visit.typed.get("original"))
    made = await request_again(visit.session, settings, id_, original=original)
    if made.secret_header is not None:  # the receiver would learn the secret
        made = await request_again(visit.session, settings, id_, original=True)
    if await _hides_some_of(visit, made):
        raise Conflict(
            "a part of this request is hidden on the screens by redact_keys or hidden_types of "
            f"[admin], or by a handler: run `{_command(made)}` on a terminal"
        )
    return made


async def _hides_some_of(visit: ActionVisit, made: RequestAgain) -> bool:
    """Check the body, and all headers except those of the signature."""
    admin, ids = visit.settings.admin, list(made.event_ids)
    found = await events_of(visit.session, ids[:_MOST_EVENTS])
    types = sorted({event["type"] for event in found})
    all_known = bool(ids) and len(found) == len(ids)
    redaction = await redaction_of(visit.session, admin, "event", types if all_known else None)
    if any(map(redaction.hides_type, types)) or (admin.hidden_types and not all_known):
        return True
    source = visit.settings.inbound.webhooks.get(made.source)
    proof = verifier_for(made.source, source).signed_headers if source else ()
    headers = {name: value for name, value in made.kept.items() if name not in proof}
    try:
        texts = [made.body.decode(), orjson.dumps(headers).decode()]
    except UnicodeDecodeError:  # bytes that cannot be searched
        return bool(admin.redact_keys)
    return redaction.hides_some(texts)


async def _ask(visit: ActionVisit) -> Question:
    _require_client()
    made = await _request(visit)
    seen = await operations.seen_entry(visit.session, "send", made.target)
    return Question(
        title=tell("Webhook from {source}", source=made.source),
        button=tell("Send it again"),
        does=[
            tell(
                "The stored request is sent from this host to the address below, its body byte by "
                "byte as it came: {size}.",
                size=size(len(made.body)),
            ),
            tell("It is signed anew, with a key of its source.")
            if made.signed
            else tell(
                "It is sent with the headers as they came: no key here may sign, or a new "
                "signature would show the secret of its source."
            ),
        ],
        follows=[
            tell("Its id stays, so a receiver that has it already takes it for a duplicate."),
            tell("The server at the address gets the contents of the request."),
            tell(
                "Addresses that are not public are refused, unless outbound.webhooks.allow of the "
                "settings has them."
            ),
        ],
        fields=list(_fields(visit, made)),
        seen=str(seen),
        command=_command(made),
        final=True,
    )


def _fields(visit: ActionVisit, made: RequestAgain) -> Iterator[AskedField]:
    yield AskedField(
        name="url",
        title=tell("Address"),
        hint="https://staging.example/in/shop",
        value=visit.typed.get("url", ""),
        required=True,
    )
    if made.signed or visit.typed.get("original"):
        yield AskedField(
            name="original",
            title=tell("With the headers as they came, not signed anew"),
            kind="check",
            value=visit.typed.get("original", ""),
        )


async def _do(visit: ActionVisit) -> ActionTold:
    url, webhooks = visit.typed.get("url", "").strip(), visit.settings.outbound.webhooks
    _require_client()
    _check(url, webhooks)
    made, seen = await _request(visit), visit.seen_number
    await operations.sent_again(visit.session, made.target, url, seen=seen, **visit.by)
    told, look = await _sent(made, url, webhooks)
    return ActionTold(_back(visit.about), told, look)


def _require_client() -> None:
    """Raise RequestRefused if this process cannot send HTTP requests."""
    if find_spec("aiohttp") is None:
        detail = (
            "nothing was sent: this process needs aiohttp for it, which is not installed: run "
            "`pip install 'inboxd[http]'`, or `inboxd webhooks replay` on a terminal"
        )
        raise RequestRefused(HTTPStatus.CONFLICT, detail)


def _check(url: str, webhooks: OutboundWebhooks) -> None:
    """Raise UsageError for an address to which nothing can be sent."""
    from inboxd.outbound.urls import checked_url  # noqa: PLC0415 - imports yarl, of aiohttp

    try:
        parts = checked_url(url)
    except TargetRefused as error:
        raise UsageError(str(error)) from None
    if webhooks.require_https and parts.scheme != "https":
        raise UsageError("outbound.webhooks.require_https allows only addresses with https://")


async def _sent(made: RequestAgain, url: str, webhooks: OutboundWebhooks) -> tuple[Sentence, Look]:
    from inboxd.outbound.client import TargetClient, TargetRequest  # noqa: PLC0415 - as above

    left = anyio.current_effective_deadline() - anyio.current_time() - _PAGE_SECONDS
    request = TargetRequest(
        "POST",
        url,
        made.headers,
        made.body,
        max(0.1, min(_SECONDS, left)),
        allowed=Allowed(webhooks.allow),
    )
    try:
        async with TargetClient() as client:
            answer = await client.ask(request)
    except TargetRefused as error:
        return tell("Nothing was sent: {why}", why=error), "error"
    except TargetUnreachable as error:
        told = tell("No answer came, and it may have been received: {why}", why=error)
        return told, "error"
    told = tell(
        "Sent again: {host} answered {status}.", host=urlsplit(url).hostname, status=answer.status
    )
    return told, "good" if answer.status // 100 == _SUCCESS else "error"


def _command(made: RequestAgain) -> str:
    return f"inboxd webhooks replay {made.receipt_id} --url https://…"


def _back(about: QueryParams) -> str:
    id_ = about.get("id", "")
    return way_back(about, f"/events/{id_}" if id_.isdecimal() else f"/story/receipt/{id_}")


ACTIONS: Final = (
    ScreenAction(path="/act/webhooks/replay", ask=_ask, do=_do, back=_back, role=Role.ADMIN),
)
