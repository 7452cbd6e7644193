"""Actions from the screens: confirmation, execution, and protection against repeated forms.

Promises: an action needs its role, which is checked before anything is read; a form acts only once:
this process remembers it, and another process finds that the state for which it was shown has
changed; an invalid input is asked for again, with the input kept and the state read again; an
action is done completely or not at all, except an erasure, which reports how far it came; a secret
that an action made is only in the answer to its form. Known limit: an action that runs out of time
may have been done; its page says to check first.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from inboxd.admin.answers import RequestRefused, detail_of, status_of
from inboxd.admin.screens.access import Doorkeeper
from inboxd.admin.screens.access.cookies import prefix_of
from inboxd.admin.screens.access.wanted import wanted
from inboxd.admin.screens.actions import ACTIONS
from inboxd.admin.screens.actions.contract import ActionTold, ActionVisit, Question, ScreenAction
from inboxd.admin.screens.forms import read_form
from inboxd.admin.screens.host_spool import HostSpool
from inboxd.admin.screens.roles import Role, Visitor
from inboxd.admin.screens.screen import ScreenPage
from inboxd.admin.screens.told import ToldSentences
from inboxd.admin.screens.whole_inbox import refuse_certain_tenants
from inboxd.admin.screens.writing import Writing
from inboxd.errors import Conflict, InboxdError, UsageError
from inboxd.model import checks
from inboxd.model.lineage import uuid7
from inboxd.model.row_id import read_uuid
from inboxd.operations import ReadOnlyReason, why_denied
from inboxd.settings import Settings
from inboxd.store.session import Session
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Seconds for a whole request; the same as in the admin API.
TIMEOUT: Final = 15.0
_MOST_FIELDS: Final = 32
_LONGEST_REASON: Final = 1_000
_MOST_KNOWN: Final = 10_000

Show = Callable[[Request, ScreenPage, Visitor | None, HTTPStatus], Response]


class FormsOnce:
    def __init__(self) -> None:
        self._sent: OrderedDict[UUID, None] = OrderedDict()

    @contextmanager
    def taken(self, once: UUID) -> Iterator[Callable[[], object]]:
        """After a failure, or a call of the result, the form may be sent again. Raises Conflict."""
        if once in self._sent:
            raise Conflict(
                "this form was confirmed before, so nothing more was done: open the page again to "
                "do it once more"
            )
        self._sent[once] = None
        while len(self._sent) > _MOST_KNOWN:
            self._sent.popitem(last=False)
        try:
            yield partial(self._sent.pop, once, None)
        except BaseException:
            self._sent.pop(once, None)
            raise


class ScreenActing:
    def __init__(
        self,
        settings: Settings,
        access: Doorkeeper,
        show: Show,
        spool: HostSpool | None = None,
    ) -> None:
        """show: draws a page that needs no database."""
        self._settings, self._access, self._show = settings, access, show
        self._spool = spool
        self._writing = Writing(settings)
        self._once = FormsOnce()
        self.told = ToldSentences(settings.admin)

    async def why_not(self, visitor: Visitor) -> ReadOnlyReason | None:
        """None: actions are possible, or the role is too low."""
        return await self._writing.why_not() if visitor.may(Role.OPERATOR) else None

    def answers(
        self, on_done: Callable[[], None]
    ) -> Iterator[tuple[str, Callable[[Request], Awaitable[Response]]]]:
        """Each path answers GET and POST. on_done: called after each action."""
        for action in ACTIONS:
            yield action.path, self._answering(action, on_done)

    def _answering(
        self, action: ScreenAction, on_done: Callable[[], None]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            visitor = await self._access.visitor(request)
            if isinstance(visitor, Response):
                return visitor
            request.state.visitor = visitor
            _check_role(visitor, action)
            try:
                _check_texts(request.query_params.values())
                if request.method == "POST":
                    response = await self._done(request, action, visitor)
                    on_done()
                else:
                    response = await self._asked(request, action, visitor)
            except InboxdError as error:
                response = self._refused(request, action, visitor, error)
            self._access.renew(request, response)
            return response

        return answer

    async def _asked(
        self,
        request: Request,
        action: ScreenAction,
        visitor: Visitor,
        again: ActionVisit | None = None,
        refused: str | None = None,
    ) -> Response:
        async with self._writing.session() as session:
            await self._refuse(session, action)
            visit = ActionVisit(
                session=session,
                settings=self._settings,
                visitor=visitor,
                about=request.query_params,
                typed=again.typed if again else {},
                once=uuid7(),
                reason=again.reason if again else None,
                spool=self._spool,
            )
            question = await action.ask(visit)
        refused = refused or question.parts.get("refused")
        has_changed = again is not None and again.seen != question.seen
        page = _page(request, action, visit, question, refused, has_changed=has_changed)
        status = HTTPStatus.OK if refused is None else HTTPStatus.BAD_REQUEST
        return self._show(request, page, visitor, status)

    async def _done(self, request: Request, action: ScreenAction, visitor: Visitor) -> Response:
        fields = dict(await read_form(request, action.most_body, _MOST_FIELDS))
        _check_texts(fields.values())
        once = read_uuid(fields.pop("once", ""), "a form of the screens: open the page again")
        seen, reason = fields.pop("seen", ""), fields.pop("reason", "").strip() or None
        async with self._writing.session() as session:
            await self._refuse(session, action)
            visit = ActionVisit(
                session=session,
                settings=self._settings,
                visitor=visitor,
                about=request.query_params,
                typed=fields,
                once=once,
                reason=reason,
                seen=seen,
                spool=self._spool,
            )
            refused = None
            try:
                _check_reason(reason)
                with self._once.taken(once) as release:
                    told = await action.do(visit)
                    if told is None:
                        release()
            except UsageError as error:
                told, refused = None, detail_of(error)
            if told is not None:
                _log.info(
                    "an action was done on the screens", action=action.path, actor=visitor.actor
                )
                if told.secret is not None:
                    # Not in a cookie, which the browser would keep.
                    return self._show(request, _secret_page(told), visitor, HTTPStatus.OK)
                to = prefix_of(request) + told.path
                response = RedirectResponse(to, HTTPStatus.SEE_OTHER)
                self.told.keep(request, response, visitor, told)
                return response
        return await self._asked(request, action, visitor, visit, refused)

    async def _refuse(self, session: Session, action: ScreenAction) -> None:
        """Raise RequestRefused, with the reason, if the database does not allow the action."""
        await self._writing.refuse_if_read_only(session)
        if action.reserved and (why := await why_denied(session, action.reserved)):
            raise RequestRefused(HTTPStatus.FORBIDDEN, f"nothing was changed: {why}")

    def _refused(
        self, request: Request, action: ScreenAction, visitor: Visitor, error: InboxdError
    ) -> Response:
        status = status_of(error)
        shown = {
            "status": int(status),
            "phrase": status.phrase,
            "detail": detail_of(error),
            "back": action.back(request.query_params),
            "again": wanted(request),
        }
        return self._show(request, ScreenPage("refused.html", shown), visitor, status)


def actions_for(visitor: Visitor | None, *, frozen: bool) -> frozenset[str]:
    if visitor is None or frozen:
        return frozenset()
    limited = visitor.tenants is not None
    return frozenset(
        each.path
        for each in ACTIONS
        if visitor.may(each.role) and (each.for_tenants or not limited)
    )


def _check_role(visitor: Visitor, action: ScreenAction) -> None:
    if not action.for_tenants:
        refuse_certain_tenants(visitor)
    if not visitor.may(action.role):
        detail = f"this action needs the role {action.role.name.lower()}"
        raise RequestRefused(HTTPStatus.FORBIDDEN, detail)


def _check_texts(values: Iterable[str]) -> None:
    """Raise UsageError for texts that the database cannot store."""
    if any(map(checks.text, values)):
        raise UsageError(
            "an address or a form has a character that the database cannot store, such as NUL: "
            "open the action from a page"
        )


def _check_reason(text: str | None) -> None:
    """Raise UsageError, if the reason is longer than the audit takes."""
    if text is not None and len(text) > _LONGEST_REASON:
        raise UsageError(f"the reason must have at most {_LONGEST_REASON} characters")


def _secret_page(told: ActionTold) -> ScreenPage:
    shown = {"told": told.sentence, "look": told.look, "secret": told.secret, "back": told.path}
    return ScreenPage("secret.html", {}, shown)


def _page(
    request: Request,
    action: ScreenAction,
    visit: ActionVisit,
    question: Question,
    refused: str | None,
    *,
    has_changed: bool,
) -> ScreenPage:
    """has_changed: the state is not the one that the sent form had."""
    shown = {
        "question": question,
        "once": visit.once,
        "reason": visit.reason or "",
        "has_changed": has_changed,
        "sends_to": wanted(request),
        "back": action.back(request.query_params),
        "most_reason": _LONGEST_REASON,
        **question.parts,
        "refused": refused,
    }
    return ScreenPage(question.template, {}, shown)
