"""The series of the alerts: present from the start, with ages only where somebody must act."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from inboxd.store import samples
from inboxd.telemetry.metrics import CommandBacklog, EventBacklog
from tests.daemon.inbox import Inbox
from tests.support import Database, StartWorker, endpoints
from tests.support.rows import create_ledger, daemon_session
from tests.support.sampled import counted

pytestmark = pytest.mark.anyio

ALERTS = Path(__file__).parents[2] / "deploy" / "alerts.yaml"
# Gauges of things that may not exist: no lane, nothing paused or blocked, not the leader.
OPTIONAL_GAUGES = {
    *("inboxd_event_backlog_age_seconds", "inboxd_event_backlog_rows"),
    *("inboxd_command_backlog_age_seconds", "inboxd_command_backlog_rows"),
    "inboxd_kept_event_age_seconds",
    *("inboxd_blocked_keys", "inboxd_blocked_key_age_seconds", "inboxd_blocked_line_age_seconds"),
    "inboxd_breaker_backlog_age_seconds",
    *("inboxd_retention_lag_seconds", "inboxd_statement_findings"),
    "inboxd_endpoint_failure_age_seconds",
    "inboxd_webhook_last_success_timestamp_seconds",
    "inboxd_webhook_held_since_timestamp_seconds",
}
_BANK = {"type": "bank.paid", "scheme": "bearer", "keys": [{"secret": "a-token-of-16-bytes"}]}
_BETS = {"broker": "nowhere", "nats_stream": "BETS"}
_INBOUND = {
    "http": {"enabled": True, "port": 0},
    "webhooks": {"bank": _BANK},
    "messages": {"bets": _BETS},
}


def series_of_alerts() -> list[tuple[str, dict[str, str]]]:
    """The series that alerts.yaml names: each name with the labels that must be equal."""
    said = "\n".join(re.findall(r"(?ms)^ +expr: (.+?)^ +(?:for|labels):", ALERTS.read_text()))
    found = re.findall(r"(inboxd_\w+)(?:\{([^}]*)\})?", said)
    return [(name, dict(re.findall(r'(\w+)="([^"]*)"', labels))) for name, labels in found]


def test_a_gap_in_the_scrapes_does_not_repeat_an_alert() -> None:
    """An alert on the first failure looks back an hour: one earlier instant may be missing."""
    before = re.findall(r"unless (?!on )(\S+)", ALERTS.read_text())
    assert len(before) >= 4
    for series in before:
        assert re.match(r"last_over_time\(inboxd_\w+(\{.+?\})?\[1h\]", series), series


async def test_every_series_of_the_alerts_is_present_from_the_start(
    database: Database, start_worker: StartWorker
) -> None:
    """A counter that appears with the value 1 has no increase in Prometheus."""
    await create_ledger(database)
    await endpoints.add(database, "acme")
    leap_day = {"cron": "0 0 29 2 *", "command": "test.wait"}
    worker = await start_worker(
        {
            "retry": {"attempts": 1},
            "schedules": {"leap": leap_day},
            "inbound": _INBOUND,
            "brokers": {
                "main": {"kind": "lines", "servers": ["127.0.0.1:9"]},
                "nowhere": {"kind": "nats", "servers": ["127.0.0.1:9"]},
            },
            "relays": {"out": {"broker": "main", "types": ["test.published"]}},
            "outbound": {"webhooks": {"enabled": True}},
        }
    )
    families = list(text_string_to_metric_families((await worker.get("/metrics"))[1]))
    families = [family for family in families if family.name.startswith("inboxd_")]
    samples = [sample for family in families for sample in family.samples]
    known = {f"{each.name}_total" if each.type == "counter" else each.name for each in families}
    known |= {f"{each.name}_bucket" for each in families if each.type == "histogram"}
    assert len(series_of_alerts()) > 20
    for name, labels in series_of_alerts():
        assert name in known, name
        shown = [s for s in samples if s.name == name and labels.items() <= s.labels.items()]
        assert shown or name in OPTIONAL_GAUGES, f"{name}{labels}"
        if name.endswith("_total"):
            assert {sample.value for sample in shown} == {0}, f"{name}{labels}"
    types = {
        (sample.name, sample.labels.get("type"))
        for sample in samples
        if sample.labels.get("outcome") == "failed"
    }
    assert {("inboxd_events_total", "test.ledger"), ("inboxd_commands_total", "test.wait")} <= types
    # So the first failure is an increase.
    inbox = Inbox(database)
    await inbox.dead("command", await inbox.write("command", "test.misbehave", {"how": "reject"}))
    failed = 'inboxd_commands_total{outcome="failed",queue="default",type="test.misbehave"}'
    assert await worker.metric(failed) == 1


@pytest.fixture
async def late_rows(database: Database) -> Database:
    """Rows that are an hour late: of the types a and b, in each kind of lane."""
    long_ago = "now() - interval '1 hour'"
    await database.execute(
        "insert into inboxd.topics (name, mode, source, rules)"
        " values ('s', 'sequential', 'test', '{}')"
    )
    await database.execute(
        f"""insert into inboxd.commands (type, queue, ordering_key, run_at)
            select type, queue, key, {long_ago} from unnest(array['a', 'b']) as type,
                   unnest(array['q', 'r']) as queue, unnest(array[null, 'k']) as key"""
    )
    await database.execute(
        f"""insert into inboxd.events (type, topic, ordering_key, run_at)
            select type, topic, case topic when 's' then 'k' || type end, {long_ago}
              from unnest(array['a', 'b']) as type, unnest(array['t', 'u', 's']) as topic"""
    )
    return database


LINES = {f"{queue}/{type_}//in_line" for queue in "qr" for type_ in "ab"}
LANES = {f"{queue}/{type_}/0/pending" for queue in "qr" for type_ in "ab"}
TOPICS = {f"{topic}/{type_}/pending" for topic in "tu" for type_ in "ab"}
LATE = LINES | LANES | TOPICS | {"s//arrived"}


async def late(database: Database) -> tuple[set[str], set[str | None]]:
    """The lanes whose rows have an age, and the breakers that rows wait for."""
    async with daemon_session(database) as session:
        counts = await counted(session)
    events, commands = samples.event_backlog(counts), samples.command_backlog(counts)
    seen: list[EventBacklog | CommandBacklog] = [*events, *commands]
    assert sum(each.rows or 0 for each in seen) == 14, seen
    old = [each for each in seen if each.age is not None]
    lanes = {"/".join(each[:-3]) for each in old if each.breaker is None}
    return lanes, {each.breaker for each in old} - {None}


async def test_paused_lanes_have_no_age(late_rows: Database) -> None:
    """Paused rows are counted, but have no age, so no alert fires."""
    assert await late(late_rows) == (LATE, set())
    for kind, name, part in (
        ("type", "a", r"[qrtu]/a/.*"),
        ("queue", "q", r"q/.*"),
        ("topic", "t", r"t/.*"),
        ("topic", "s", r"s//arrived"),
    ):
        await late_rows.execute("delete from inboxd.controls")
        await late_rows.execute(
            "insert into inboxd.controls (kind, name, actor) values ($1, $2, 'ada')", kind, name
        )
        paused = {lane for lane in LATE if re.fullmatch(part, lane)}
        assert await late(late_rows) == (LATE - paused, set()), (kind, name)


@pytest.mark.parametrize(
    ("state", "mode", "is_late"),
    [
        ("open", "auto", False),
        ("half_open", "auto", False),
        ("closed", "open", False),
        ("closed", "auto", True),
        ("open", "metrics_only", True),
        ("open", "closed", True),
    ],
)
async def test_lanes_behind_an_open_breaker_are_late_under_its_name(
    late_rows: Database, state: str, mode: str, is_late: bool
) -> None:
    """The rows have an age only under the breaker: one target that is down fires one alert."""
    for uses, part in (
        (["command a"], r"[qr]/a/.*"),
        (["queue q"], r"q/.*"),
        (["event b"], r"[tu]/b/.*"),
        (["event a", "event b", "topic s"], r"[tus]/.*"),
        (["topic t", "command", "event"], r"nothing"),
    ):
        await late_rows.execute("delete from inboxd.breakers")
        await late_rows.execute(
            "insert into inboxd.breakers"
            " (name, state, mode, uses, opens, open_until, probe_by, probe_until, actor) "
            "select 'brevo', $1, $2, $3, 1, case when $1 <> 'closed' then now() end,"
            " case $1 when 'half_open' then gen_random_uuid() end,"
            " case $1 when 'half_open' then now() end, case when $2 <> 'auto' then 'ada' end",
            *(state, mode, uses),
        )
        waits = set() if is_late else {lane for lane in LATE if re.fullmatch(part, lane)}
        assert await late(late_rows) == (LATE - waits, {"brevo"} if waits else set()), uses
