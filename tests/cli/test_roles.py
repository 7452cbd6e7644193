"""The command line with the roles of viewers and operators: rights and refusals."""

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
import typer

from inboxd.main.app import app
from tests.cli.conftest import Cli
from tests.support import Database
from tests.support.sender import SECRET

Sql = Callable[..., list[asyncpg.Record]]
Become = Callable[[str], None]

pytestmark = pytest.mark.direct("the pooler knows one role")

CANARIES = (
    *("canary-payload", "canary-error", "canary-url", "canary-secret", "canary-note"),
    *("canary-spool", "canary-reader"),
)
# Commands that only read.
READS = (
    *("status", "doctor", "audit", "notices", "paused", "workers --all", "check --as viewer"),
    *("events list", "events list --status failed", "events show 1", "events count"),
    *("commands list", "commands show 1", "commands show 3", "commands count --type a.b"),
    *("events why 1", "events why 4", "commands why 3", "commands why 5"),
    *("queues list", "queues show default", "topics list", "topics show lined"),
    *("topics blocked", "topics chunks chunked", "schedules list", "messages list"),
    *("breakers list", "breakers show brevo", "endpoints list", "endpoints show acme"),
    *("endpoints deliveries acme", "batches list", "batches show 1", "workflows list"),
    *("workflows show 2", "failures list", "failures show abcd", "history list"),
    "failures list --archived",
    *("trace event 1", "trace command 1", "trace batch 1", "webhooks list"),
    *("plugins list", "plugins show testplugin", "status --since 7d", "chart events --since 1d"),
    *("chart commands backlog --queue default", "chart events arrivals"),
    *("events replay --type user.created --dry-run", "actions list", "actions show 1"),
    *("commands cancel --all --dry-run", "commands cancel --all --background --dry-run"),
    "statement",
)
# Commands of an operator, in this order.
ACTIONS = (
    *("failures archive abcd", "failures unarchive abcd"),
    *("events replay 1", "events dismiss 2", "commands replay 1", "commands dismiss 2"),
    "failures replay abcd --yes",
    *("commands cancel 4", "commands prioritize 5 --priority 3", "commands reschedule 5 --at 1h"),
    *(
        "commands replay --type email.welcome --yes",
        "pause queue email --force",
        "resume queue email",
    ),
    *("topics flush chunked", "breakers open brevo", "breakers auto brevo"),
    *("endpoints disable acme", "endpoints enable acme", "batches close 1", "batches cancel 3"),
    *("workflows cancel 2", "messages reset bank p-0 --to newest", "webhooks pause bank"),
    *("webhooks resume bank", "endpoints resend acme 7", "topics unsubscribe gone"),
    *("events reschedule 4 --at now", "commands cancel --all --background"),
    *("actions pause 1", "actions resume 1", "actions abort 1"),
)
# Commands that need another role, or none; each has its test elsewhere.
OTHERS = {
    *("run", "receive", "migrate", "uninstall", "declare", "check", "emit", "send", "erase"),
    *("rehearse", "man", "new", "dev", "config schema", "workflows resume", "webhooks show"),
    *("webhooks send", "webhooks replay", "webhooks openapi", "breakers close"),
    *("breakers metrics-only", "endpoints send", "endpoints add", "endpoints change"),
    *("endpoints remove", "endpoints rotate", "history make", "history export", "history drop"),
    *("spool list", "spool show", "spool verify", "spool drain", "spool discard", "admin hash"),
    *("schedules run", "schedules add", "schedules change", "schedules remove"),
    *("commands replay-with", "commands edit", "messages verify", "tail"),
}
FILLED = """
select inboxd.emit_event('user.created', '{"mail": "canary-payload"}') from generate_series(1, 2);
select inboxd.emit_event('user.created', '{"mail": "canary-payload"}', topic => 'chunked'),
       inboxd.emit_event('user.created', '{"mail": "canary-payload"}');
update inboxd.events set status = 'failed', fingerprint = 'abcd',
       errors = '[{"error": "E: canary-error", "at": "2026-01-01T00:00:00Z"}]' where id < 3;
select inboxd.send_command('email.welcome', '{"mail": "canary-payload"}')
  from generate_series(1, 8);
update inboxd.commands set status = 'failed', fingerprint = 'abcd',
       errors = '[{"error": "E: canary-error", "at": "2026-01-01T00:00:00Z"}]'
 where id in (1, 2, 6);
update inboxd.commands set status = 'failed', fingerprint = 'efgh' where id = 8;
insert into inboxd.workers (id, name, host, pid, version, events, commands, queues, declares)
values ('00000000-0000-0000-0000-000000000001', 'w', 'h', 1, '1', '{}', '{}', '{}', '');
update inboxd.commands set status = 'running', worker_id = '00000000-0000-0000-0000-000000000001',
       started_at = now(),
       progress = '{"done": 1, "of": 2, "note": "canary-note", "at": "2026-01-01"}'
 where id = 3;
with gone as (delete from inboxd.commands where id = 7 returning *)
insert into inboxd.commands_history
       (id, command_id, queue, type, schema_version, payload, priority, status, attempts, crashes,
        fence, run_at, cancel_requested, origin_kind, created_at, updated_at, finished_at, result,
        awaited)
select id, command_id, 'webhooks.acme', 'webhook.deliver', 1, payload, 0, 'succeeded', 1, 0,
       1, run_at, false, 'api', created_at, now(), now(), '{"note": "canary-note"}', false
  from gone;
insert into inboxd.endpoints (name, url, types, secrets, last_failure)
values ('acme', 'https://a/canary-url', '{*}',
        '[{"secret": "canary-secret", "created_at": "2026-01-01T00:00:00Z"}]', 'canary-error');
insert into inboxd.breakers (name, reason) values ('brevo', 'canary-error');
insert into inboxd.receivers (id, name, host, pid, version, trouble)
values (gen_random_uuid(), 'door', 'h', 1, '1', 'canary-spool');
insert into inboxd.message_readers (source, worker_id, broker, state, trouble)
values ('orders', '00000000-0000-0000-0000-000000000001', 'kafka', 'lost', 'canary-reader');
insert into inboxd.topics (name, mode, source) values ('chunked', 'batch', 'test'),
       ('lined', 'sequential', 'test');
insert into inboxd.subscriptions (type, topic, undeclared_at) values ('a.b', 'gone', now());
insert into inboxd.stream_positions (source, stream, position) values ('bank', 'p-0', 7);
insert into inboxd.events (type, topic, mode, ordering_key)
values ('user.created', 'chunked', 'batch', 'k');
update inboxd.events set position = 1, head = true, run_at = now() + interval '1 day'
 where ordering_key = 'k';
select inboxd.open_batch('one'), inboxd.open_batch('two'), inboxd.open_batch('three');
update inboxd.batches set kind = 'workflow' where id = 2;
insert into inboxd.actions
       (kind, verb, selection, actor, audit_id, status, starts_at, next_at, above, first_id,
        last_id, counted, whole)
values ('command', 'replay', '{"statuses": ["failed"], "type": "other"}', 'test', 0, 'scheduled',
        'infinity', 'infinity', 0, 1, 1, 1, true);
"""


@pytest.fixture
def become(
    cli: Cli, sql: Sql, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Become]:
    """Fill the tables, and let later commands log in as a member of a role."""
    del cli
    for statement in FILLED.split(";\n"):
        sql(statement)
    made = []

    def become(role: str) -> None:
        name = f"{database.name}_{role}"
        sql(f"CREATE ROLE {name} LOGIN IN ROLE inboxd_{role}")
        made.append(name)
        parts = urlsplit(database.dsn)
        netloc = f"{name}@{parts.netloc.rpartition('@')[2]}"
        monkeypatch.setenv("INBOXD_DATABASE__DSN", urlunsplit(parts._replace(netloc=netloc)))

    yield become
    for name in made:
        sql(f"DROP ROLE {name}")


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a source of webhooks."""
    bank = f'{{"bank": {{"type": "test.fan", "keys": [{{"secret": "{SECRET}"}}]}}}}'
    monkeypatch.setenv("INBOXD_INBOUND__WEBHOOKS", bank)


def _commands(command: object = None, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Return the names of all commands."""
    command = typer.main.get_command(app) if command is None else command
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path)
    for name, each in (below or {}).items():
        yield from _commands(each, (*path, name))


def test_every_command_is_tested_or_needs_another_role() -> None:
    every = set(_commands())
    typed = {*READS, *ACTIONS}
    tried = {
        one for one in every if any(each == one or each.startswith(f"{one} ") for each in typed)
    }
    assert every - OTHERS - tried == set()
    assert every >= OTHERS


def test_viewer_reads_all_but_contents(cli: Cli, become: Become) -> None:
    become("viewer")
    for line in READS:
        result = cli(*line.split(), "--json")
        # The doctor exits with 1 because no worker runs, not because of the role.
        assert result.code == (1 if line == "doctor" else 0), (line, result.err)
        assert not [each for each in CANARIES if each in result.out + result.err], line


def test_operator_reads_contents_without_secrets(cli: Cli, become: Become) -> None:
    become("operator")
    lines = ("events list", "events show 1 --payload", "status", "endpoints list")
    told = "".join(cli(*line.split(), "--json").out for line in lines)
    assert [each for each in CANARIES if each not in told] == ["canary-secret"]


@pytest.mark.parametrize(
    "line",
    [
        *("events show 1 --payload", "commands show 1 --payload", "webhooks show 3 --payload"),
        "events replay --error canary --dry-run",
        *("events list --error canary", "commands list --error canary"),
        *("events list --payload mail=canary", "commands list --payload mail=canary"),
    ],
)
def test_refusal_tells_a_viewer_who_may_read_contents(
    cli: Cli, sql: Sql, become: Become, line: str
) -> None:
    if line.startswith("webhooks"):
        sql(
            "insert into inboxd.receipts (receipt_id, received_at, source, outcome, event_ids,"
            " body, body_bytes)"
            " select event_id, inboxd.receipt_time(event_id), 'bank', 'stored', array[event_id],"
            "       'canary-payload', 1"
            "   from inboxd.events where id = 3"
        )
        sql(
            "update inboxd.events set origin_kind = 'receipt', causation_id = event_id where id = 3"
        )
    become("viewer")
    result = cli(*line.split())
    assert result.code == 69
    assert result.err.startswith("inboxd: this role may not read ")
    assert result.err.count("\n") == 1
    assert "inboxd_operator" in result.err
    assert "canary" not in result.out + result.err


def test_audit_shows_viewers_no_url(cli: Cli, become: Become) -> None:
    url = "https://hooks.example/canary-url"
    added = cli("endpoints", "add", "other", url, "--type", "*")
    assert added.code == 0, added.err
    become("viewer")
    told = cli("audit", "--json").out
    assert "add to hooks.example" in told
    assert "canary" not in told


def test_reasons_of_broken_spool_and_lost_source_are_withheld_from_viewers(
    cli: Cli, become: Become
) -> None:
    become("viewer")
    found = {each["found"] for each in cli("doctor", "--json").json["findings"]}
    assert "it is stopped: the reason is withheld from this role" in found
    (broken,) = [each for each in found if each.startswith("door (pid 1 on h)")]
    assert broken.endswith("its spool is broken; the reason is withheld from this role")
    (receiver,) = cli("status", "--json").json["receivers"]
    assert (receiver["broken"], receiver["trouble"]) == (True, None)
    assert "withheld" in cli("status").out


def test_viewer_sees_that_errors_are_withheld(cli: Cli, become: Become) -> None:
    become("viewer")
    assert cli("events", "show", "1", "--json").json["withheld"] == ["errors", "progress"]
    assert "This role cannot read: errors, progress." in cli("events", "show", "1").err


@pytest.mark.usefixtures("source")
def test_viewer_cannot_act(cli: Cli, sql: Sql, become: Become) -> None:
    become("viewer")
    for line in ACTIONS:
        result = cli(*line.split())
        assert result.code == 69, (line, result.out)
        assert "permission denied" in result.err, line
        assert "inboxd_operator also act" in result.err, line
        assert result.err.count("\n") == 1
    assert sql("select count(*) from inboxd.audit")[0][0] == 0


@pytest.mark.usefixtures("source")
def test_operator_can_act(cli: Cli, sql: Sql, become: Become) -> None:
    become("operator")
    for line in ACTIONS:
        result = cli(*line.split())
        assert result.code == 0, (line, result.err)
    assert sql("select count(*) from inboxd.audit")[0][0] >= len(ACTIONS)
    assert [
        tuple(row) for row in sql("select status from inboxd.commands_history where id = 1")
    ] == [("failed",)]
    (again,) = sql("select payload, replay_of from inboxd.commands where replay_of = 1")
    assert "canary-payload" in again["payload"]


@pytest.mark.parametrize(
    "line",
    [
        *("emit user.created {}", "send email.welcome {}", "history make --days 40"),
        *("endpoints rotate acme", "endpoints remove acme --yes", "erase --tenant a --yes"),
        "uninstall --yes",
    ],
)
def test_refusal_tells_an_operator_who_may_do_more(cli: Cli, become: Become, line: str) -> None:
    become("operator")
    result = cli(*line.split())
    assert result.code != 0, result.out
    assert "Traceback" not in result.err


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_check_names_the_use_of_a_login(cli: Cli, sql: Sql, become: Become, role: str) -> None:
    become(role)
    lines = {line["subject"]: line for line in cli("check", "--json").json["checks"]}
    assert lines["privileges"]["verdict"] == "warn"
    whose = "an operator" if role == "operator" else "a viewer"
    assert f"has the privileges of {whose}" in lines["privileges"]["found"]
    assert cli("check", "--as", role).code == 0
    sql(f"revoke select (status) on inboxd.events from inboxd_{role}")
    try:
        result = cli("check", "--as", role, "--json")
        (lacking,) = (line for line in result.json["checks"] if line["subject"] == "privileges")
        assert result.code == 1
        assert lacking["remedy"].startswith("GRANT SELECT (status) ON inboxd.events TO ")
    finally:
        sql(f"grant select (status) on inboxd.events to inboxd_{role}")


def test_check_lists_the_grants_for_an_own_role(
    cli: Cli, sql: Sql, become: Become, database: Database
) -> None:
    """Where roles cannot be created, a login gets the grants that `--grants` lists."""
    become("producer")
    login = f"{database.name}_producer"
    for whose in ("viewer", "operator"):
        told = cli("check", "--as", whose, "--grants", "--json").json["checks"]
        for line in told:
            if line["subject"] == "privileges":
                sql(line["remedy"])
        assert cli("check", "--as", whose).code == 0
    sql(f"DROP OWNED BY {login}")
