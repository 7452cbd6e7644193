"""`inboxd status` shows receivers, and the processes of a supervisor as one row."""

from collections.abc import Callable

import asyncpg

from tests.cli.conftest import Cli

Sql = Callable[..., list[asyncpg.Record]]

_RECEIVERS = """
insert into inboxd.receivers (id, name, process, host, pid, version, sources, state, beat_at)
select gen_random_uuid(), name, process, 'h', 1, '0.1', sources, state, now() - silence
  from (values ('door', 1, '{bets,shop}'::text[], 'running', interval '1 s'),
               ('door', 2, '{bets,shop}', 'draining', '2 s'),
               ('side', null, '{bets}', 'running', '5 min'),
               ('gone', null, '{bets}', 'running', '2 h'),
               ('left', null, '{bets}', 'stopped', '1 s'))
    as r(name, process, sources, state, silence)
"""
_WORKERS = """
insert into inboxd.workers
    (id, name, process, host, pid, version, events, commands, queues, declares, in_flight)
select gen_random_uuid(), name, process, 'h', 1, '0.1', '{}', '{}', '{}', 'x', 2
  from (values ('shop', 1), ('shop', 2), ('alone', null), ('alone', null)) as w(name, process)
"""


def _rows(out: str, title: str) -> list[list[str]]:
    """Return the cells of the rows of the table with this title, as in a pipe."""
    _, _, rest = out.partition(f"{title}\n")
    return [line.split("\t") for line in rest.partition("\n\n")[0].splitlines()[1:]]


def test_receivers_are_shown_beside_workers(cli: Cli, sql: Sql) -> None:
    assert cli("status", "--json").json["receivers"] == []
    assert "Receivers" not in cli("status").out
    sql(_RECEIVERS)
    found = cli("status", "--json").json["receivers"]
    shown = [(each["name"], each["process"], each["state"]) for each in found]
    assert shown == [("door", 1, "running"), ("door", 2, "draining"), ("side", None, "dead")]
    assert found[0]["sources"] == ["bets", "shop"]
    rows = _rows(cli("status").out, "Receivers: 2")
    door, side = ({cell.strip() for cell in row} for row in rows)
    assert {"door", "1, 2", "1 running, 1 draining", "bets, shop"} <= door
    assert {"side", "dead", "bets"} <= side


def test_replaced_dead_receiver_is_left_out(cli: Cli, sql: Sql) -> None:
    """Its supervisor has started another process in its place."""
    started = """
    insert into inboxd.receivers
        (id, name, process, host, pid, version, sources, started_at, beat_at)
    select gen_random_uuid(), name, process, host, 1, '0.1', '{bets}', now() - started,
           now() - silence
      from (values ('door', 1, 'h', interval '50 min', interval '40 min'),
                   ('door', 1, 'h', '40 min', '30 min'),
                   ('door', 1, 'h', '30 min', '0'),
                   ('door', 1, 'other', '50 min', '40 min'),
                   ('door', 2, 'h', '50 min', '40 min'),
                   ('alone', null, 'h', '50 min', '40 min'),
                   ('alone', null, 'h', '30 min', '0'))
        as r(name, process, host, started, silence)"""
    sql(started)
    found = cli("status", "--json").json["receivers"]
    shown = [(each["name"], each["process"], each["host"], each["state"]) for each in found]
    assert shown == [
        ("alone", None, "h", "dead"),
        ("alone", None, "h", "running"),
        ("door", 1, "h", "running"),
        ("door", 2, "h", "dead"),
        ("door", 1, "other", "dead"),
    ]
    dead = [
        each["found"]
        for each in cli("doctor", "--json").json["findings"]
        if each["subject"] == "receivers" and "has been silent" in each["found"]
    ]
    assert len(dead) == 3


def test_workers_of_one_supervisor_are_one_row(cli: Cli, sql: Sql) -> None:
    sql(_WORKERS)
    assert len(cli("status", "--json").json["workers"]) == 4
    rows = _rows(cli("status").out, "Workers: 3")
    [shop] = [row for row in rows if row[0] == "shop"]
    assert shop[1:3] == ["1, 2", "running"]
    assert "4" in shop
    assert len([row for row in rows if row[0] == "alone"]) == 2


def test_spooling_receivers_are_shown(cli: Cli, sql: Sql) -> None:
    sql(_RECEIVERS)
    sql("update inboxd.receivers set spooled = '{bets}' where name = 'door' and process = 2")
    sql("update inboxd.receivers set trouble = 'the disk failed' where name = 'side'")
    out = cli("status").out
    head, door, side = (
        line.split("\t") for line in out.partition("Receivers: 2\n")[2].split("\n")[:3]
    )
    assert dict(zip(head, door, strict=True))["spools"] == "bets"
    assert dict(zip(head, side, strict=True))["trouble"] == "the disk failed"
    found = cli("status", "--json").json["receivers"]
    assert [each["spooled"] for each in found] == [[], ["bets"], []]
