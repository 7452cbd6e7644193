"""The platform's bets: placed before the matches, and judged afterwards.

Owns the SQL of the demo. Promises: the expected status of each bet is computed from the results
that were sent, without the plugin's statements.
"""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from bets.stage.provider import Result

Connection = Any  # asyncpg's

_PLACE = """
    INSERT INTO betting.bets (bet_id, customer_id, stake)
    SELECT n, n % 5000, 1 + n % 50 FROM generate_series(1, $1::integer) n
"""
# Each bet is on one to four matches; picks and odds do not depend on the results.
_SELECT = """
    INSERT INTO betting.selections (bet_id, match_id, pick, odds)
    SELECT n, 'match-' || ((n * 7919 + s * 104729 + s * s * 31) % $2),
           (ARRAY['home', 'draw', 'away'])[1 + (n / 3 + s * n) % 3], 1.5 + (n + s) % 40 / 10.0
      FROM generate_series(1, $1::integer) n, generate_series(0, 3) s
     WHERE s <= n % 4
    ON CONFLICT DO NOTHING
"""
_DUE = """
    CREATE TEMPORARY TABLE due AS
    WITH ended AS (
        SELECT m.id, CASE WHEN m.home > m.away THEN 'home' WHEN m.home < m.away THEN 'away'
                          ELSE 'draw' END AS outcome
          FROM unnest($1::text[], $2::integer[], $3::integer[]) AS m(id, home, away)
    )
    SELECT s.bet_id, CASE WHEN bool_and(s.pick = e.outcome) THEN 'won' ELSE 'lost' END AS status
      FROM betting.selections s JOIN ended e ON e.id = s.match_id
     GROUP BY s.bet_id
"""
# Events for other services do not count: config.toml has them ignored, after a while.
_IDLE = """
    SELECT NOT EXISTS (SELECT FROM inboxd.events WHERE topic = 'match-results')
       AND NOT EXISTS (SELECT FROM inboxd.commands)
"""
_VERDICT = """
    WITH notified AS (
        SELECT (payload ->> 'bet_id')::bigint AS bet_id, count(*) AS times
          FROM inboxd.commands_history WHERE type = 'bets.notify_customer' GROUP BY 1
    ), paid AS (
        SELECT (payload ->> 'bet_id')::bigint AS bet_id, count(*) AS times
          FROM inboxd.commands_history WHERE type = 'bets.pay_out' GROUP BY 1
    )
    SELECT count(*) FILTER (WHERE b.status = 'won') AS won,
           count(*) FILTER (WHERE b.status = 'lost') AS lost,
           count(*) FILTER (WHERE b.status IS DISTINCT FROM d.status) AS wrong_status,
           count(*) FILTER (WHERE coalesce(t.times, 0) <> 1) AS wrong_notified,
           count(*) FILTER (WHERE coalesce(p.times, 0) <> (d.status = 'won')::integer)
           AS wrong_paid,
           sum(t.times)::bigint AS notified, sum(p.times)::bigint AS paid,
           (SELECT count(*) FROM betting.payments) AS payments
      FROM betting.bets b
      LEFT JOIN due d USING (bet_id)
      LEFT JOIN notified t USING (bet_id) LEFT JOIN paid p USING (bet_id)
"""
_RECEIPTS = """
    SELECT count(*) AS receipts, count(*) FILTER (WHERE stored_at - received_at > interval '1 s')
           AS late, coalesce(extract(epoch FROM max(stored_at - received_at)), 0) AS latest
      FROM inboxd.receipts
"""


class Verdict(NamedTuple):
    """The numbers of the table, and one sentence for each fault."""

    numbers: dict[str, Any]
    faults: list[str]


def draw_results(matches: int) -> list[Result]:
    """The results, in the order in which the matches end."""
    chance = random.Random(2026)
    results = [
        Result(f"match-{number}", chance.randint(0, 3), chance.randint(0, 3))
        for number in range(matches)
    ]
    chance.shuffle(results)
    return results


async def place(connection: Connection, bets: int, matches: int) -> None:
    """Place the bets, before any match has ended."""
    await connection.execute(_PLACE, bets)
    await connection.execute(_SELECT, bets, matches)
    await connection.execute("ANALYZE betting.bets, betting.selections")


async def is_idle(connection: Connection) -> bool:
    """Whether no result and no command is left."""
    return bool(await connection.fetchval(_IDLE))


async def judge(connection: Connection, results: Sequence[Result]) -> Verdict:
    """Compare the bets with the status, the commands and the payments that are due."""
    columns = zip(*((each.match, each.home, each.away) for each in results), strict=True)
    await connection.execute(_DUE, *map(list, columns))
    numbers = {
        **await connection.fetchrow(_VERDICT),
        **await connection.fetchrow(_RECEIPTS),
    }
    wrong = {
        "bets have the wrong status": numbers["wrong_status"],
        "bets do not have exactly one notification command": numbers["wrong_notified"],
        "bets do not have the payment command that is due": numbers["wrong_paid"],
        "results have no receipt, or two": abs(numbers["receipts"] - len(results)),
        "payments are missing or too many": abs(numbers["payments"] - numbers["won"]),
    }
    return Verdict(numbers, [f"{count:,} {what}" for what, count in wrong.items() if count])
