"""The admin API: inspect events and commands, one or a list, and replay, dismiss or cancel one.

Promises: every request needs a valid token; an action is audited with the token's name, and needs
full access; the size and time of each request, and the number and rate of a token's requests, are
limited; a request without a valid token does not count towards these limits. Known limit: a request
that runs out of time is answered 503 although its action may have been done: look at the row before
you send it again; a second replay is refused.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, cast
from uuid import UUID

import anyio
import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from inboxd import operations
from inboxd.admin.answers import RequestRefused, found, of_error, problem
from inboxd.admin.openapi import openapi
from inboxd.admin.redaction import Redaction
from inboxd.admin.revealing import Revealing
from inboxd.admin.screens.pages.queries import page_size, row_number
from inboxd.admin.screens.pages.row_filters import FILTERS, lane_of, read_query, refuse_guesses
from inboxd.admin.screens.roles import Role, Visitor
from inboxd.admin.throttle import Throttle
from inboxd.admin.tokens import Tokens
from inboxd.errors import InboxdError, UsageError
from inboxd.model.row_id import read_row_id
from inboxd.operations import Action
from inboxd.settings import Settings
from inboxd.store.operator_sessions import open_session
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Seconds for a whole request, its body included.
TIMEOUT: Final = 15.0
MOST_BODY: Final = 16 * 1024
# Requests at once; each has its own database connection.
_AT_ONCE = 4
# Requests of one token, a second and at once.
_RATE, _BURST = 50, 200
_LONGEST_REASON = 1_000
_OF_LISTS = ("status", "commands", "below", "limit")

_Answer = Callable[[Request, Visitor], Awaitable[Response]]


class AdminApi:
    def __init__(self, settings: Settings, tokens: Tokens) -> None:
        self._settings = settings
        self._tokens = tokens
        self._requests = Throttle(_RATE, _BURST)
        self._at_once = anyio.CapacityLimiter(_AT_ONCE)
        self._tenants = operations.Tenants(settings.tenants)
        self._revealing = Revealing(settings)
        self._redaction = Redaction(settings.admin)

    def reload(self, tokens: Tokens) -> None:
        """Accept these tokens alone, from the next request on."""
        self._tokens = tokens

    def application(self) -> Starlette:
        rows, lists = "/api/{table:str}/{id:str}", "/api/{table:str}"
        routes = [
            Route("/api/openapi.json", self._guarded(self._describe), methods=["GET"]),
            Route(lists, self._guarded(self._list), methods=["GET"]),
            Route(rows, self._guarded(self._show), methods=["GET"]),
            Route(f"{rows}/{{action:str}}", self._guarded(self._act), methods=["POST"]),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: _elsewhere})

    def _guarded(self, answer: _Answer) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            try:
                with anyio.fail_after(TIMEOUT):
                    return await answer(request, self._caller(request))
            except TimeoutError:
                detail = f"not answered within {TIMEOUT:g} s: look at the row before you try again"
                return problem(HTTPStatus.SERVICE_UNAVAILABLE, detail)
            except InboxdError as error:
                return of_error(error)
            except Exception:  # noqa: BLE001 - logged
                _log.exception("the admin API failed", path=request.url.path)
                return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "see the log of the daemon")

        return guarded

    def _caller(self, request: Request) -> Visitor:
        visitor = self._tokens.visitor(request)
        if self._requests.is_spent([visitor.actor]):
            raise RequestRefused(HTTPStatus.TOO_MANY_REQUESTS, "too many requests: try again later")
        self._requests.spend([visitor.actor])
        return visitor

    async def _describe(self, request: Request, _: Visitor) -> Response:
        return found(openapi(str(request.scope.get("root_path", ""))))

    async def _list(self, request: Request, caller: Visitor) -> Response:
        table, query = _table(request), request.query_params
        known = {*FILTERS, *_OF_LISTS, lane_of(table)}
        if table == "commands":
            known.discard("commands")
        if strange := sorted(query.keys() - known):
            # Without the unknown filter, the list would have more rows than were asked for.
            names = ", ".join(sorted(known))
            raise UsageError(f"{strange[0]!r:.60} is not a valid filter: use {names}")
        wanted = read_query(table, query)
        below, limit = row_number(query, "below"), page_size(query)
        async with self._session() as session:
            await refuse_guesses(session, self._settings.admin, table, wanted)
            rows = await operations.find(session, table, wanted, below=below, limit=limit)
            await operations.label_rows(session, table, rows.rows, self._tenants)
            await operations.mark_replayed(session, table, rows.rows)
        if wanted.payload:
            await self._revealing.note(table, caller)
        return found(rows.document(table))

    async def _show(self, request: Request, caller: Visitor) -> Response:
        table, row_id = _named(request)
        payload, raw = _flag(request, "payload"), _flag(request, "raw")
        if raw and table != "events":
            raise UsageError("raw is for events alone: a command does not come in a webhook")
        async with self._session() as session:
            row = await operations.details(
                session,
                self._settings,
                table,
                row_id,
                payload=payload,
                raw=raw,
                tenants=self._tenants,
            )
        if payload or raw:
            await self._revealing.note(f"{table} {row['id']}", caller)
        self._redaction.hide(row)
        return found(row)

    async def _act(self, request: Request, caller: Visitor) -> Response:
        table, row_id = _named(request)
        action = _action(request)
        if not caller.may(Role.OPERATOR):
            detail = f'the token {caller.name!r} may only read: use one with access = "full"'
            raise RequestRefused(HTTPStatus.FORBIDDEN, detail)
        reason = await _reason(request)
        async with self._session() as session:
            done = await operations.act(
                session, table, action, [row_id], actor=caller.actor, reason=reason
            )
        _log.info(
            "an action was done by the admin API",
            action=action,
            table=table,
            id=str(row_id),
            actor=caller.actor,
        )
        return found(operations.told(action, done))

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        async with self._at_once, open_session(self._settings.database, part="admin") as session:
            yield session


async def _elsewhere(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - the application calls it for these alone
    detail = "no such path or method: see /api/openapi.json"
    return problem(HTTPStatus(error.status_code), detail, error.headers)


def _named(request: Request) -> tuple[HotTable, int | UUID]:
    return _table(request), read_row_id(request.path_params["id"])


def _table(request: Request) -> HotTable:
    table = request.path_params["table"]
    if table not in ("events", "commands"):
        raise RequestRefused(HTTPStatus.NOT_FOUND, "no such path: see /api/openapi.json")
    return cast("HotTable", table)


def _action(request: Request) -> Action:
    action = request.path_params["action"]
    if action not in ("replay", "dismiss", "cancel"):
        raise RequestRefused(HTTPStatus.NOT_FOUND, "no such action: use replay, dismiss or cancel")
    if (request.path_params["table"], action) == ("events", "cancel"):
        raise UsageError("an event cannot be cancelled: it is a fact")
    return cast("Action", action)


def _flag(request: Request, name: str) -> bool:
    given = request.query_params.get(name, "false").lower()
    if given not in ("true", "false", "1", "0"):
        raise UsageError(f"{name} must be true or false")
    return given in ("true", "1")


async def _reason(request: Request) -> str | None:
    body = await _body(request)
    try:
        document: Any = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError:
        raise UsageError(
            'the body is not valid JSON: send, for example, {"reason": "the shop is back"}'
        ) from None
    if not isinstance(document, dict) or document.keys() - {"reason"}:
        raise UsageError('the body must be an object with "reason" as its only key')
    reason = document.get("reason")
    if reason is None:
        return None
    if not isinstance(reason, str) or len(reason) > _LONGEST_REASON or "\x00" in reason:
        raise UsageError(
            f"reason must be a text of at most {_LONGEST_REASON} characters, without NUL"
        )
    return reason


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY:
            detail = f"the body has more than {MOST_BODY} bytes"
            raise RequestRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
    return bytes(body)
