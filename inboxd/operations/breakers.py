"""Changes the mode of a breaker: forced open or closed, metrics only, or automatic.

Promises: every worker applies the mode within a second. Known limit: a breaker that only a
handler's code names is unknown until it has been open.
"""

from inboxd.errors import Conflict, UnknownName
from inboxd.model.spelling import did_you_mean
from inboxd.resilience.rules import Mode
from inboxd.store import breakers as store
from inboxd.store import operations as audit
from inboxd.store.breakers import BreakerRow
from inboxd.store.session import Session

_ACTIONS: dict[Mode, audit.Audited] = {
    "open": "force open",
    "closed": "force closed",
    "metrics_only": "metrics only",
    "auto": "auto",
}


async def force_breaker(
    session: Session,
    name: str,
    mode: Mode,
    *,
    actor: str,
    reason: str | None = None,
    seen: str | None = None,
) -> BreakerRow:
    """A breaker that was forced open probes before it closes.

    Raises UnknownName; Conflict if it has that mode already, or its mode is not `seen` (None: any).
    """
    async with session.transaction():
        if not await store.force(session, name, mode, actor, reason, seen):
            row = await one_breaker(session, name)
            is_now = f"the breaker {name!r} is {row['mode'].replace('_', ' ')}"
            if row["mode"] == mode:
                raise Conflict(f"{is_now} already")
            by = f", by {row['actor']}" if row["actor"] else ""
            raise Conflict(f"{is_now} meanwhile{by}; nothing was changed: look at it again")
        await audit.record(session, actor, _ACTIONS[mode], f"breaker {name}", reason, 1)
        return await one_breaker(session, name)


async def one_breaker(session: Session, name: str) -> BreakerRow:
    found = await store.listed(session, name)
    if not found:
        known = [each["name"] for each in await store.listed(session)]
        hint = did_you_mean(name, known) or "; `inboxd breakers list` has the names."
        raise UnknownName(f"there is no breaker {name!r}: no worker has declared it{hint}")
    return found[0]
