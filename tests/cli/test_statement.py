"""`inboxd statement`: the sums of a day, differences, and their acceptance."""

from collections.abc import Callable

import asyncpg
import orjson
import pytest

from tests.cli.conftest import Cli

Sql = Callable[..., list[asyncpg.Record]]

LINE = {
    "source": "shop",
    "received": 10,
    "duplicates": 1,
    "succeeded": 5,
    "dead": 1,
    "dismissed": 0,
    "cancelled": 0,
    "erased": 0,
    "open": 2,
    "difference": 1,
    "receipts": 4,
    "receipt_duplicates": 1,
}


@pytest.fixture
def made(sql: Sql) -> None:
    """Make statements of two days; the older one has a difference."""
    sql("insert into inboxd.statement_days (day, closed_at) values ('2026-01-30', now())")
    sql("insert into inboxd.statement_days (day, closed_at) values ('2026-01-31', now())")
    sql(
        "insert into inboxd.statement_lines values"
        " ('2026-01-30', 'shop', 9, 10, 1, 5, 1, 0, 0, 0, 2),"
        " ('2026-01-31', '', 3, 3, 0, 3, 0, 0, 0, 0, 0)"
    )
    sql("insert into inboxd.statement_receipts values ('2026-01-30', 'shop', 4, 4, 1)")
    sql(
        "insert into inboxd.statement_findings (day, source, what, rows, detail) values"
        " ('2026-01-30', 'shop', 'rows_missing', 1, 'were received, and are nowhere now')"
    )


def test_missing_statement_is_explained(cli: Cli) -> None:
    found = cli("statement")
    assert "No statement yet" in found.err
    assert cli("statement", "--json").json["day"] is None
    missing = cli("statement", "--day", "2026-01-30")
    assert (missing.code, "2026-01-30 has no statement" in missing.err) == (1, True)
    mistyped = cli("statement", "--day", "yesterday")
    assert (mistyped.code, "is not a valid day" in mistyped.err) == (2, True)


@pytest.mark.usefixtures("made")
def test_difference_of_a_day_is_reported_until_accepted(cli: Cli, sql: Sql) -> None:
    newest = cli("statement")
    assert newest.code == 1
    assert "3 received, 3 found" in newest.out
    assert "(none)" in newest.out
    assert "Other days that do not add up: 2026-01-30" in newest.err
    assert cli("statement", "--day", "2026-01-31").code == 0
    day = ("--day", "2026-01-30")
    told = cli("statement", *day).out
    assert "10 received, 9 found; 1 missing" in told
    assert "rows_missing" in told
    shown = cli("statement", *day, "--json")
    assert shown.code == 1
    found = orjson.loads(shown.out)
    assert found["lines"] == [LINE]
    assert [each["what"] for each in found["findings"]] == ["rows_missing"]
    assert cli("statement", *day, "--source", "other", "--json").json["lines"] == []
    refused = cli("statement", "--accept")
    assert (refused.code, "--accept needs --day" in refused.err) == (2, True)
    done = cli("statement", *day, "--accept", "--reason", "a test", "--json")
    assert done.json == {"accepted": 1, "day": "2026-01-30"}
    assert cli("statement", "--json").json["elsewhere"] == []
    (kept,) = cli("statement", *day, "--json").json["findings"]
    assert kept["accepted_by"]
    ((action, target, reason),) = sql("select action, target, reason from inboxd.audit")
    assert (action, target, reason) == ("accept", "statement 2026-01-30", "a test")
