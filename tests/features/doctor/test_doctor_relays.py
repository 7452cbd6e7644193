"""The doctor on relays: stopped ones, their waiting events, and refused ones."""

from tests.cli.conftest import Cli
from tests.cli.troubles import Report, Sql

RELAY = (
    "insert into inboxd.topics (name, mode, source, rules, relay)"
    " values ('results', 'sequential', 'relay results', '{}', true)"
)
BREAKER = (
    "insert into inboxd.breakers (name, mode, state, uses, opens, open_until, reason, actor)"
    " values ('broker.main', $1, $2, '{event match.result,topic results}', 1,"
    " case when $2 = 'open' then now() end, 'nobody answers',"
    " case when $1 <> 'auto' then 'ada' end)"
)


def _emit(sql: Sql, *keys: str, minutes: int = 10) -> None:
    for key in keys:
        sql(
            "insert into inboxd.events (type, topic, ordering_key, created_at)"
            " values ('match.result', 'results', $1, now() - make_interval(mins => $2))",
            key,
            minutes,
        )


def test_inbox_without_relays_is_ok(cli: Cli, sql: Sql) -> None:
    sql("insert into inboxd.topics (name, mode, source) values ('lines', 'sequential', 'plugin')")
    Report(cli).one("relays", "ok", "there are no relays")


def test_unpublished_events_are_reported(cli: Cli, sql: Sql) -> None:
    sql(RELAY)
    Report(cli).one("relay results", "ok", "0 not published")
    _emit(sql, "a", "b")
    found = Report(cli).one("relay results", "warning", "2 not published, the oldest for 10m")
    assert found["figure"] >= 600
    assert cli("pause", "topic", "results").code == 0
    Report(cli).one("relay results", "notice", "it is paused", "inboxd resume topic results")


def test_open_breaker_of_the_broker_stops_a_relay(cli: Cli, sql: Sql) -> None:
    sql(RELAY)
    sql(BREAKER, "auto", "open")
    words = ("its breaker broker.main is open (nobody answers)", "inboxd breakers show broker.main")
    Report(cli).one("relay results", "notice", *words)
    _emit(sql, "a")
    Report(cli).one("relay results", "warning", *words, "the oldest for 10m")
    _emit(sql, "b", minutes=90)
    Report(cli).one("relay results", "critical", "the oldest for 1h30m")
    sql("update inboxd.breakers set mode = 'closed', actor = 'ada'")
    report = Report(cli)
    assert "breaker" not in report.one("relay results", "critical")["found"]


def test_breaker_that_is_forced_open_stops_a_relay(cli: Cli, sql: Sql) -> None:
    sql(RELAY)
    sql(BREAKER, "open", "closed")
    Report(cli).one("relay results", "notice", "broker.main is forced open")


def test_refused_events_are_reported_with_a_reason(cli: Cli, sql: Sql) -> None:
    sql(RELAY)
    _emit(sql, "a", "b", minutes=0)
    assert not Report(cli).of("relay results: refused")
    sql(
        "update inboxd.events set position = 1, head = true, attempts = 1,"
        " run_at = now() + interval '1 min', errors ="
        """ '[{"at": "2026-01-01T00:00:00Z", "error": "MessageRefused: there is no queue x"}]'"""
        " where ordering_key = 'a'"
    )
    found = Report(cli).one("relay results: refused", "warning", "1 event retried", "no queue x")
    assert "Unroutable" in found["remedy"]
    sql("update inboxd.events set status = 'failed', updated_at = now() where ordering_key = 'a'")
    Report(cli).one("relay results: refused", "notice", "0 events retried, 1 dead letter")
