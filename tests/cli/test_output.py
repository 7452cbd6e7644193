"""Output of the command line: on a terminal of 80 columns, in a pipe, in another time zone."""

import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from inboxd.cli import findings, output
from inboxd.cli.output import Fields, Table, TableColumn, show
from tests.cli.conftest import Cli

Sql = Callable[..., list[asyncpg.Record]]

COLUMNS = (
    TableColumn("id", kind="number"),
    TableColumn("type", cut="left"),
    TableColumn("tenant", extra=True),
    TableColumn("created", "created_at", kind="time"),
    TableColumn("took", kind="span", extra=True),
    TableColumn("error", cut="right", legend="what went wrong"),
)


def rows(**values: Any) -> list[dict[str, Any]]:
    made = datetime.now(UTC) - timedelta(minutes=5)
    common = {
        "tenant": None,
        "created_at": made,
        "took": 483.2,
        "error": "ValueError: " + "no " * 60,
    }
    return [
        {"id": 1, "type": "shop.orders.of_today.ship_order", **common, **values},
        {"id": 12345, "type": "shop.orders.of_today.bill_order", **common, **values},
    ]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the output be a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    for module in (findings, output):
        monkeypatch.setattr(module, "on_terminal", lambda: True)


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the machine's time zone to New York."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_table_that_fits_is_shown_whole() -> None:
    lines = list(Table(COLUMNS, rows(error="no")).lines(200))
    assert lines[0].split() == ["id", "type", "created", "took", "error"], "no row has a tenant"
    assert lines[2].split()[0] == "1"
    assert lines[2].startswith("    1  shop.orders.of_today.ship_order  2"), lines[2]
    assert "8m3s" in lines[2]
    assert lines[-1] == "error: what went wrong"


def test_narrow_table_cuts_types_from_the_left_and_errors_from_the_right() -> None:
    lines = list(Table(COLUMNS, rows()).lines(80))
    assert max(map(len, lines[:4])) <= 80
    assert "5m ago" in lines[2], "a time is an age in a narrow table"
    assert "ship_order" in lines[2]
    assert "bill_order" in lines[3]
    assert lines[2].endswith("…")


def test_least_important_columns_are_left_out_and_named() -> None:
    lines = list(Table(COLUMNS, rows(tenant="acme" * 5)).lines(60))
    assert max(map(len, lines[:4])) <= 60
    assert lines[-1] == "(no room for tenant, took; --wide shows all)"
    assert "ship_order" in lines[2]


def test_too_wide_table_drops_its_last_columns() -> None:
    """A table is never wider than the terminal, even if all columns must stay."""
    titles = [f"column {number}" for number in range(9)]
    table = Table([TableColumn(each, each) for each in titles], [dict.fromkeys(titles, "x" * 20)])
    for width in (20, 40, 80, 250):
        lines = list(table.lines(width))
        assert max(map(len, lines[:3])) <= width
        assert lines[0].startswith("column 0")
    assert "no room for column 1, column 2" in list(table.lines(20))[-1]


def test_wide_table_cuts_nothing() -> None:
    lines = list(Table(COLUMNS, rows()).lines(None))
    assert lines[2].count("no ") >= 59
    assert "shop.orders.of_today.ship_order" in lines[2]


def test_error_of_several_lines_is_cut_on_a_terminal_and_escaped_in_a_pipe() -> None:
    table = Table(COLUMNS, rows(error="ValueError: first\n\tsecond"))
    assert not any("second" in line for line in table.lines(None))
    assert [line.split("\t")[-1] for line in table.plain()][1] == r"ValueError: first\n\tsecond"


def test_cell_of_a_pipe_can_be_unescaped() -> None:
    error = "C:\\new\\table\n\tsecond"
    _, row, _ = Table(COLUMNS, rows(error=error)).plain()
    assert row.split("\t")[-1].encode().decode("unicode_escape") == error


def test_wide_characters_count_as_two_columns() -> None:
    (_, _, line, _) = Table(COLUMNS[:2], rows(type="注文" * 20)).lines(40)
    assert line == "    1  …" + ("注文" * 20)[-16:]


@pytest.mark.usefixtures("terminal")
def test_finding_breaks_only_between_words(capsys: pytest.CaptureFixture[str]) -> None:
    name = "a-long_name-" * 8
    line = findings.FindingLine("Checks", "schema", "fail", f"it lacks {name} now", f"make {name}")
    findings.print_findings([line])
    assert capsys.readouterr().out.split().count(name) == 2


@pytest.mark.usefixtures("terminal")
def test_lists_fit_into_80_columns(cli: Cli, sql: Sql) -> None:
    for name in ("ship_order", "send_receipt"):
        sql(
            """INSERT INTO inboxd.commands (queue, type, status, attempts, errors)
               VALUES ('shop.mails.outgoing', $1, 'failed', 3, $2)""",
            f"shop.orders.of_today.{name}",
            '[{"error": "ConnectError: ' + "all connection attempts failed " * 10 + '"}]',
        )
    for arguments in (["commands", "list"], ["status"], ["queues", "list"], ["doctor"]):
        out = re.sub(r"\x1b\[[0-9;]*m", "", cli(*arguments).out)
        too_long = [line for line in out.splitlines() if len(line) > 80]
        assert too_long == [], arguments
        assert "ship_order" in out or arguments[0] in ("queues", "doctor")
    wide = cli("commands", "list", "--wide").out
    assert "attempts failed " * 2 not in wide.splitlines()[0]
    assert "shop.orders.of_today.ship_order" in wide
    assert "tenant" not in wide, "no row has a tenant"


def test_pipe_gets_rows_with_tabs_and_whole_values(cli: Cli, sql: Sql) -> None:
    error = "ConnectError: " + "x" * 180
    sql(
        """INSERT INTO inboxd.commands (queue, type, status, errors)
           VALUES ('q', 'shop.ship_order', 'failed', $1)""",
        '[{"error": "' + error + '"}]',
    )
    titles, row = cli("commands", "list").out.splitlines()
    cells = dict(zip(titles.split("\t"), row.split("\t"), strict=True))
    assert cells["type"] == "shop.ship_order"
    assert cells["error"] == error
    assert cells["tenant"] == "-"


def test_aligned_option_aligns_a_pipe(cli: Cli, sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("a.b", "a.much_longer_type"):
        sql("INSERT INTO inboxd.commands (queue, type) VALUES ('q', $1)", name)
    titles, rule, *lines = cli("commands", "list", "--aligned").out.splitlines()
    assert "\t" not in titles
    assert set(rule) == {"-", " "}
    places = {titles.index("type"), *(line.index("a.") for line in lines[:2])}
    assert len(places) == 1, "the types are aligned"
    assert "\t" in cli("commands", "list").out
    assert "\t" not in cli("status", "--aligned").out


@pytest.mark.usefixtures("terminal")
def test_status_has_titles_and_omits_empty_tables(cli: Cli) -> None:
    found = cli("status", "--minutes", "7").out
    assert found.startswith("Dead letters: none\n\nWorkers: 0\n\n"), "no titles of empty tables"
    assert "\nLanes, counted now: no worker has taken a sample\n" in found
    assert "Progress" not in found, "an empty table"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (datetime(2026, 1, 31, 8, 0, 5, tzinfo=UTC), "2026-01-31 03:00:05-05:00"),
        (datetime(2026, 7, 31, 8, 0, 5, 999, tzinfo=UTC), "2026-07-31 04:00:05-04:00"),
    ],
)
def test_times_are_local_with_their_zone(new_york: None, value: datetime, told: str) -> None:
    assert show(value) == told


def test_row_is_shown_without_internal_columns(cli: Cli, sql: Sql) -> None:
    (row,) = sql("INSERT INTO inboxd.commands (queue, type) VALUES ('q', 'a.b') RETURNING id")
    short, whole = (cli("commands", "show", row["id"], *more).out for more in ([], ["--verbose"]))
    for name in ("fence", "awaited", "needs"):
        assert f"\n  {name} " not in short
        assert f"\n  {name} " in whole
    assert "\n  created at " in short
    assert "+00:00" not in short


def test_usage_errors_begin_as_other_errors(cli: Cli) -> None:
    for arguments, told in (
        # The text between is Typer's, and may change.
        (["run", "--fast"], r"inboxd: .+--fast.*\nUsage: inboxd run \[OPTIONS\]\n"),
        (["events", "list", "--since", "soon"], "inboxd: 'soon' is neither a duration such as 2h"),
    ):
        result = cli(*arguments)
        assert (result.code, result.out) == (2, "")
        assert re.match(told, result.err)


def test_single_row_has_a_singular_text(cli: Cli, sql: Sql) -> None:
    sql("INSERT INTO inboxd.commands (queue, type) VALUES ('q', 'a.b')")
    assert cli("pause", "type", "a.b").out == "Paused: type a.b, 1 row waiting\n"
    assert cli("commands", "cancel", "--all").out == "Cancelled: 1 command\n"


def test_names_of_rows_cannot_colour_the_terminal(cli: Cli, sql: Sql) -> None:
    red = "\x1b[31mred"
    (batch,) = sql("INSERT INTO inboxd.batches (name) VALUES ($1) RETURNING id", red)
    assert "\ufffd[31mred" in cli("batches", "cancel", batch["id"]).out
    emit = ("emit", "test.noop", "--topic", red, "--dedup-key", "k", "--force")
    cli(*emit)
    conflict = cli(*emit, '{"other": 1}')
    assert conflict.code == 65
    assert "in topic \ufffd[31mred" in conflict.out


def test_printed_parts_cannot_colour_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.print_parts([Fields({"name": "a\x1b[31m"}, "Of b\x1b[31m"), "Left: c\x1b[31m"])
    output.remark("Kept: d\x1b[31m")
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert out == "Of b\ufffd[31m\n  name  a\ufffd[31m\n\nLeft: c\ufffd[31m\n"


def test_json_too_deep_for_orjson_is_shown() -> None:
    deep = json.loads("[" * 400 + "]" * 400)
    assert json.loads(output.json_text({"payload": deep}, indent=True)) == {"payload": deep}
