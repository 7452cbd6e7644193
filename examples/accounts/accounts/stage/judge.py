"""The demo's verdict: compares the registration's table with the ledgers of the targets.

Owns the checks. Promises: "right" means that each user has exactly one account and one charge in
the ledger of the service that made it, under the user's correlation id, and that no command is
left.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from accounts.stage.looks import Look, spent_while_open
from accounts.stage.people import Answered

_USERS = "SELECT user_id::text, correlation_id, provisioned_at, charged_at FROM registration.users"
_LEFT = "SELECT count(*) FROM inboxd.commands WHERE status <> 'failed'"
_DEAD = "SELECT count(*) FROM inboxd.commands WHERE status = 'failed'"
# Commands that provisioned a pending user: how many, mean seconds from registration to success,
# attempts, and commands that needed more than one attempt.
_LATER = """
    SELECT count(*) AS commands,
           coalesce(avg(extract(epoch FROM finished_at - created_at)), 0)::float8 AS mean,
           coalesce(sum(attempts), 0)::float8 AS attempts,
           count(*) FILTER (WHERE attempts > 1) AS reprocessed
      FROM inboxd.commands_history WHERE type = 'accounts.provision' AND status = 'succeeded'
"""


class Ledgers(NamedTuple):
    """The ledgers of the two targets."""

    accounts: dict[str, Any]
    payments: dict[str, Any]


class Verdict(NamedTuple):
    """The lines of the table, and one sentence for each fault."""

    lines: list[tuple[str, str]]
    faults: list[str]


async def is_idle(connection: Any) -> bool:
    """Whether no command is left, dead letters aside."""
    return not await connection.fetchval(_LEFT)


async def judge(
    connection: Any, people: Sequence[Answered], ledgers: Ledgers, looks: Sequence[Look]
) -> Verdict:
    users = await connection.fetch(_USERS)
    later = await connection.fetchrow(_LATER)
    spent, pairs = spent_while_open(looks)
    faults = [
        f"{each.email} was answered {each.status} {each.trouble}"
        for each in people
        if not each.accepted
    ]
    faults += _differences("accounts", users, ledgers.accounts["deeds"])
    faults += _differences("charges", users, ledgers.payments["deeds"])
    left, dead = await connection.fetchval(_LEFT), await connection.fetchval(_DEAD)
    wrong = {
        "users are missing or too many": abs(len(users) - len({each.email for each in people})),
        "users are not marked as provisioned": sum(not user["provisioned_at"] for user in users),
        "users are not marked as charged": sum(not user["charged_at"] for user in users),
        "commands are not settled": left,
        "commands are dead letters": dead,
        "attempts were spent while the breaker was open": spent,
    }
    faults += [f"{count:,} {what}" for what, count in wrong.items() if count]
    if not later["commands"]:
        faults.append("no user had to wait: the outage had no effect")
    if all(each.state == "closed" for each in looks):
        faults.append("the breaker never opened")
    return Verdict(_lines(people, users, ledgers, later, spent, pairs), faults)


def _lines(
    people: Sequence[Answered],
    users: Sequence[Any],
    ledgers: Ledgers,
    later: Any,
    spent: int,
    pairs: int,
) -> list[tuple[str, str]]:
    accounts, payments = ledgers.accounts["counts"], ledgers.payments["counts"]
    commands = later["commands"]
    reprocessed = later["reprocessed"] / commands if commands else 0.0
    turned_away = sum(times for what, times in accounts.items() if what.isdecimal())
    numbers: dict[str, int | str] = {
        "registrations": len(people),
        "  answered with success": sum(each.accepted for each in people),
        "  slowest answer": f"{max(each.seconds for each in people):.1f} s",
        "users": len(users),
        "  provisioned in the request": len(users) - commands,
        "  pending first, provisioned later": commands,
        "accounts created, by the service's ledger": len(ledgers.accounts["deeds"]),
        "  repetitions, given the first answer": accounts.get("repeated", 0),
        "  requests refused with 429 or 503": turned_away,
        "charges made, by the gateway's ledger": len(ledgers.payments["deeds"]),
        "  answers lost after the charge": payments.get("lost", 0),
        "  repetitions, given the first answer ": payments.get("repeated", 0),
        f"attempts spent while the breaker was open ({pairs} checks)": spent,
        "mean time until a pending user was provisioned": f"{later['mean']:.1f} s",
        "  of these commands, with more than one attempt": f"{reprocessed:.0%}",
    }
    return [(name, f"{n:,}" if isinstance(n, int) else n) for name, n in numbers.items()]


def _differences(what: str, users: Iterable[Any], deeds: Iterable[Sequence[str]]) -> Iterator[str]:
    """Faults of users who have not exactly one deed under their correlation id."""
    due = Counter((user["user_id"], user["correlation_id"]) for user in users)
    made = Counter((user_id, correlation_id) for user_id, correlation_id in deeds)
    for many, verdict in ((due - made, "missing"), (made - due, "too many")):
        if many:
            first = ", correlation id ".join(next(iter(many)))
            yield f"{many.total()} {what} {verdict}; the first: user {first}"
