"""The application of the screens: it identifies the visitor, reads a page, and answers.

Promises: a page needs its role, and a visitor of certain tenants only sees pages made for that;
contents (`?payload=1`) need the role reader and, if the settings ask for it, an audit entry that is
written first; pages of other sites change nothing; every answer has headers against foreign
scripts, frames and caches; a page is read within a time limit; an error is a page with a sentence,
never a stack trace.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from time import monotonic
from typing import Any, Final

import anyio
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from inboxd.admin.answers import (
    RequestRefused,
    detail_of,
    found,
    headers_of,
    of_error,
    status_of,
)
from inboxd.admin.revealing import Revealing
from inboxd.admin.screens import acting, views, written
from inboxd.admin.screens.access import Doorkeeper
from inboxd.admin.screens.access.hosts import refuse_other_origin
from inboxd.admin.screens.assets import StaticFiles
from inboxd.admin.screens.host_spool import HostSpool
from inboxd.admin.screens.navigation import navigation
from inboxd.admin.screens.preferences import PATH as PREFERENCES
from inboxd.admin.screens.preferences import keep, preferences_of
from inboxd.admin.screens.readings import Readings, ReadPage
from inboxd.admin.screens.rendering import Renderer
from inboxd.admin.screens.roles import Role, Visitor
from inboxd.admin.screens.screen import Elsewhere, PageVisit, Screen, ScreenPage
from inboxd.admin.screens.shared import SharedReadings
from inboxd.admin.screens.snapshot import Seen, Snapshot
from inboxd.admin.screens.whole_inbox import refuse_certain_tenants
from inboxd.errors import InboxdError
from inboxd.operations import ReadOnlyReason, Tenants
from inboxd.settings import Settings
from inboxd.store.operator_sessions import Looks
from inboxd.store.statements import NotedStatements
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Pages read at once, and the time for each of their statements.
SESSIONS: Final = 3
STATEMENT_TIMEOUT: Final = timedelta(seconds=2)
# Seconds for a whole page, and for getting a session.
TIMEOUT: Final = 5.0
_SESSION_SECONDS: Final = 2.0
# The revision that an open page shows, and how many seconds ago it was read.
_REVISION: Final = "x-revision"
_READ_AGE: Final = "x-read-age"
# Parameters by which a request asks for contents, whatever their values are: a page may take any
# value for yes. Such a page is read for one visitor, and not shared.
_REVEALING: Final = ("payload", "headers", "result", "body", "raw")
# A page's content begins here, and its title ends.
_MAIN: Final = "<main "
_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


class Screens:
    def __init__(
        self,
        settings: Settings,
        looks: Looks,
        access: Doorkeeper,
        screens: Sequence[Screen],
        spool: HostSpool | None = None,
    ) -> None:
        """looks: opens read-only sessions. spool: that of this host, if the process has one."""
        self._settings, self._looks, self._access = settings, looks, access
        self._screens, self._spool = screens, spool
        self._tenants = Tenants(settings.tenants)
        self._snapshot = Snapshot(settings, lambda: looks.look(_SESSION_SECONDS))
        self._shared = SharedReadings()
        self._renderer = Renderer()
        self._readings = Readings()
        self._static = StaticFiles()
        # Paths of the pages, by whether the visitor is limited to certain tenants.
        self._paths = {
            False: frozenset(screen.path for screen in screens),
            True: frozenset(screen.path for screen in screens if screen.for_tenants),
        }
        self._navigation = {limited: navigation(paths) for limited, paths in self._paths.items()}
        self._revealing = Revealing(settings)
        self._acting = acting.ScreenActing(settings, access, self._to_somebody, spool)
        self._again: Mapping[str, str] = {}

    def application(self) -> Starlette:
        routes = [
            Route(path, self._answering(screen), methods=["GET"])
            for screen in self._screens
            for path in written.paths_of(screen)
        ]
        ways = self._access.entrances(self._to_a_stranger)
        self._again = {each.path: each.again for each in ways if each.again is not None}
        entrances = [
            Route(each.path, self._guarded(each.answer), methods=[each.method]) for each in ways
        ]
        actions = [
            Route(path, self._guarded(answer, acting.TIMEOUT), methods=["GET", "POST"])
            for path, answer in self._acting.answers(self._snapshot.expire)
        ]
        application = Starlette(
            routes=[
                Route(StaticFiles.PATH, self._static.answer, methods=["GET"]),
                Route(PREFERENCES, keep, methods=["GET"]),
                Route(views.PATH, self._guarded(self._views), methods=["GET", "POST"]),
                *entrances,
                *actions,
                *routes,
            ],
            middleware=[Middleware(GZipMiddleware, minimum_size=1000)],
            exception_handlers={HTTPException: self._no_such_page},
        )
        # starlette would redirect to the host of `Host`, which behind a proxy is a wrong address.
        application.router.redirect_slashes = False
        return application

    def _answering(self, screen: Screen) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            visitor = await self._access.visitor(request)
            if isinstance(visitor, Response):
                return visitor
            request.state.visitor = visitor
            _check_role(visitor, screen, request)
            response = await self._page(request, screen, visitor)
            self._access.renew(request, response)
            return response

        return self._guarded(answer)

    def _guarded(
        self, answer: Callable[[Request], Awaitable[Response]], within: float = TIMEOUT
    ) -> Callable[[Request], Awaitable[Response]]:
        """Refuse forms of other sites, limit the time, and turn every failure into a page."""

        async def guarded(request: Request) -> Response:
            try:
                with anyio.fail_after(within):
                    if request.method not in ("GET", "HEAD"):
                        refuse_other_origin(request, self._access.origin(request))
                    response = await answer(request)
            except TimeoutError:
                detail = f"not read within {within:g} s: narrow the filter, or try again later"
                if request.method == "POST":
                    detail = (
                        f"not answered within {within:g} s: check whether it was done before you "
                        "try again"
                    )
                response = self._failed(
                    request, RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, detail)
                )
            except InboxdError as error:
                response = self._failed(request, error)
            except Exception:  # noqa: BLE001 - logged
                _log.exception("a page of the screens failed", path=request.url.path)
                detail = "see the log of the daemon"
                response = self._failed(
                    request, RequestRefused(HTTPStatus.INTERNAL_SERVER_ERROR, detail)
                )
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return guarded

    async def _page(self, request: Request, screen: Screen, visitor: Visitor) -> Response:
        seen = await self._snapshot.seen()
        known = request.headers.get(_REVISION)
        if known is not None and _reveals(request):
            return Response(status_code=HTTPStatus.NO_CONTENT, headers=_HEADERS)

        async def read() -> ScreenPage | Elsewhere:
            async with self._looks.look(_SESSION_SECONDS) as session:
                noted = NotedStatements(session.sql)
                visit = PageVisit(
                    replace(session, sql=noted),
                    self._settings,
                    self._tenants,
                    visitor,
                    self._snapshot,
                    self._shared,
                    request.path_params,
                    request.query_params,
                    self._spool,
                )
                page = await screen.read(visit)
            sees_sql = visitor.may(Role.ADMIN) and not _is_limited(visitor)
            if isinstance(page, ScreenPage) and sees_sql and request.query_params.get("sql"):
                page.shown["statements"] = noted.asked
            return page

        text = written.text_wanted(request, screen)
        if _reveals(request) or written.wants_json(request) or text:
            reading = ReadPage(await read(), seen.revision, monotonic())
        else:
            of = (request.url.path, request.url.query, visitor.role, visitor.tenants)
            get = self._readings.opened if known is None else self._readings.kept
            reading = await get(of, seen, read)
        if isinstance(reading.page, Elsewhere):
            there = reading.page.path + (f".{text}" if text else "")
            return RedirectResponse(_prefix(request) + there, headers=_HEADERS)
        if _reveals(request):
            await self._revealing.note(_target(request), visitor)
        if written.wants_json(request):
            return found(reading.page.document)
        if text:
            return written.as_text(reading.page, text, _HEADERS)
        frozen = None if seen.trouble else await self._acting.why_not(visitor)
        return self._shown(request, reading, seen, visitor, frozen)

    def _shown(
        self,
        request: Request,
        reading: ReadPage,
        seen: Seen,
        visitor: Visitor,
        frozen: ReadOnlyReason | None,
    ) -> Response:
        """An open page gets its new content, or nothing if that is unchanged."""
        page = reading.page
        assert isinstance(page, ScreenPage)  # noqa: S101 - the caller handles Elsewhere
        kept = tuple(views.views_of(request, _path(request)))
        look = (preferences_of(request).language, _prefix(request), seen.trouble, frozen, kept)
        drawn = reading.drawn(
            look, lambda: self._content(request, page, visitor, seen.trouble, reading.age, frozen)
        )
        headers = {**_HEADERS, _REVISION: drawn.revision, _READ_AGE: f"{reading.age:.1f}"}
        known = request.headers.get(_REVISION)
        if known == drawn.revision:
            return Response(status_code=HTTPStatus.NO_CONTENT, headers=headers)
        body = drawn.html
        if known is None:
            shown = None if _reveals(request) else drawn.revision
            body = self._whole(request, body, visitor, shown, reading.age)
        response = Response(body, headers=headers, media_type="text/html")
        if known is None:
            self._acting.told.forget(request, response, visitor)
        return response

    def _content(
        self,
        request: Request,
        page: ScreenPage,
        visitor: Visitor | None,
        trouble: str | None = None,
        age: float = 0.0,
        frozen: ReadOnlyReason | None = None,
    ) -> str:
        offered = acting.actions_for(visitor, frozen=bool(trouble or frozen))
        values: Mapping[str, Any] = {
            "statements": (),
            **page.document,
            **page.shown,
            "document": page.document,
            "visitor": visitor,
            "base": "base.html",
            "trouble": trouble,
            "frozen": frozen,
            "can": offered.__contains__,
            "read_age": age,
            "views": views.views_of(request, _path(request)),
            "view_query": views.query_of(request.query_params),
            **self._inbox(),
            **self._place(request, visitor),
        }
        return self._renderer.html(
            page.template, preferences_of(request).language, _prefix(request), values
        )

    def _whole(
        self,
        request: Request,
        content: str,
        visitor: Visitor | None,
        revision: str | None = None,
        age: float = 0.0,
    ) -> str:
        """revision: None, if the page does not refresh itself."""
        title, begin, main = content.partition(_MAIN)
        preferences, seen = preferences_of(request), self._snapshot.last
        values: Mapping[str, Any] = {
            "title": Markup(title.strip()),  # noqa: S704 - drawn by a template
            "main": Markup(begin + main),  # noqa: S704 - drawn by a template
            "revision": revision,
            "told": self._acting.told.read(request, visitor),
            "read_age": age,
            "now": None if seen is None else seen.now.isoformat(timespec="milliseconds"),
            "visitor": visitor,
            "preferences": preferences,
            "navigation": self._navigation[_is_limited(visitor)],
            "asset": lambda name: _prefix(request) + self._static.path(name),
            **self._inbox(),
            **self._place(request, visitor),
        }
        return self._renderer.html(
            "whole.html", preferences.language, _prefix(request), values
        ).lstrip()

    def _inbox(self) -> dict[str, Any]:
        """The label keeps operators from taking it for another inbox."""
        return {"label": self._settings.admin.label, "colour": self._settings.admin.colour}

    def _place(self, request: Request, visitor: Visitor | None) -> dict[str, Any]:
        path, query = _path(request), request.query_params
        if path in self._again:
            path, query = self._again[path], QueryParams()
        return {
            "path": path,
            "query": query,
            "has": self._paths[_is_limited(visitor)].__contains__,
        }

    def _failed(self, request: Request, error: InboxdError) -> Response:
        if written.wants_json(request):
            return of_error(error)
        status = status_of(error)
        told = {"status": int(status), "phrase": status.phrase, "detail": detail_of(error)}
        visitor = getattr(request.state, "visitor", None)
        return self._to_somebody(request, ScreenPage("error.html", told), visitor, status)

    def _to_a_stranger(self, request: Request, page: ScreenPage, status: HTTPStatus) -> Response:
        return self._to_somebody(request, page, None, status)

    def _to_somebody(
        self, request: Request, page: ScreenPage, visitor: Visitor | None, status: HTTPStatus
    ) -> Response:
        content, whole = self._content(request, page, visitor), _REVISION not in request.headers
        if whole:
            content = self._whole(request, content, visitor)
        headers = {**_HEADERS, **headers_of(status)}
        response = Response(content, status, headers, media_type="text/html")
        if whole:
            self._acting.told.forget(request, response, visitor)
        return response

    async def _views(self, request: Request) -> Response:
        visitor = await self._access.visitor(request)
        if isinstance(visitor, Response):
            return visitor
        request.state.visitor = visitor
        if request.method == "POST":
            return await views.change(request)
        return self._to_somebody(request, views.page(request), visitor, HTTPStatus.OK)

    async def _no_such_page(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - it is called for these alone
        return self._failed(
            request, RequestRefused(HTTPStatus(error.status_code), "there is no such page")
        )


def _check_role(visitor: Visitor, screen: Screen, request: Request) -> None:
    if not screen.for_tenants:
        refuse_certain_tenants(visitor)
    if not visitor.may(screen.role):
        detail = f"this page needs the role {screen.role.name.lower()}"
        raise RequestRefused(HTTPStatus.FORBIDDEN, detail)
    if _reveals(request) and not visitor.may(Role.READER):
        detail = (
            "payloads, headers, results and bodies need the role reader or a higher one: the "
            "settings in [admin] assign the roles"
        )
        raise RequestRefused(HTTPStatus.FORBIDDEN, detail)


def _is_limited(visitor: Visitor | None) -> bool:
    return visitor is not None and visitor.tenants is not None


def _reveals(request: Request) -> bool:
    return any(any(request.query_params.getlist(name)) for name in _REVEALING)


def _target(request: Request) -> str:
    """The target in the audit: `events 4711`."""
    path = request.url.path.removeprefix(_prefix(request)).removesuffix(".json")
    return path.strip("/").replace("/", " ")


def _path(request: Request) -> str:
    return request.url.path.removeprefix(_prefix(request)) or "/"


def _prefix(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")
