"""The receiver's process: its start, its reload of settings, and its end."""

import signal
import socket
import ssl
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.support import Database, eventually
from tests.support.certificates import write_certificate
from tests.support.http_wire import NoAnswer, Wire, request
from tests.support.pooler import TRANSACTIONS_ONLY, pgbouncer
from tests.support.received import verify
from tests.support.receiver import TOPIC, MakeProvider, Receiver, StartReceiver
from tests.support.sender import SECRET, Provider, standard_webhooks
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

_OTHER = SECRET.replace("YSBz", "YSBy")


def _replace(receiver: Receiver, old: str, new: str) -> None:
    """Change the receiver's settings, and reload them."""
    settings = receiver.log.with_suffix(".toml")
    text = settings.read_text()
    assert old in text
    settings.write_text(text.replace(old, new))
    receiver.reload()


@pytest.fixture
def inbox(database: Database) -> Database:
    """A database on the server of all tests, which is fast: durability does not matter here."""
    anyio.run(database.execute, TOPIC)
    return database


async def _answered(provider: Provider, status: int) -> None:
    """Wait until a request is answered with this status."""

    async def is_answered() -> bool:
        entry = await provider.offer("a")
        return [answer.status for answer in entry.answers] == [status]

    await eventually(is_answered)


async def _states(database: Database) -> list[str]:
    rows = await database.fetch("select state from inboxd.receivers order by started_at")
    return [row["state"] for row in rows]


# ------------------------------------------------------------------------------------- its start


async def test_a_too_old_schema_ends_with_78(
    inbox: Database, start_receiver: StartReceiver
) -> None:
    await inbox.execute(
        "delete from inboxd.schema_migrations"
        " where version = (select max(version) from inboxd.schema_migrations)"
    )
    receiver = await start_receiver(ready=False)
    assert await receiver.wait() == 78
    assert "run: inboxd migrate" in receiver.output()


async def test_a_missing_table_ends_with_78(inbox: Database, start_receiver: StartReceiver) -> None:
    await inbox.execute("alter table inboxd.controls rename to renamed")
    receiver = await start_receiver(ready=False)
    assert await receiver.wait() == 78
    assert f"the schema of database '{inbox.name}' at 127.0.0.1:" in receiver.output()


async def test_a_missing_privilege_ends_with_69(
    inbox: Database, start_receiver: StartReceiver
) -> None:
    role = f"{inbox.name}_nobody"
    await inbox.execute(f"create role {role} login password 'n0body'")
    try:
        dsn = inbox.dsn.replace("postgres@", f"{role}:n0body@")
        receiver = await start_receiver(dsn=dsn, ready=False)
        assert await receiver.wait() == 69
    finally:
        await inbox.execute(f"drop role {role}")
    assert "permission denied" in receiver.output()
    assert "n0body" not in receiver.output()


async def test_the_receiver_s_role_has_enough_privileges(
    inbox: Database, start_receiver: StartReceiver, provider_of: MakeProvider
) -> None:
    role = f"{inbox.name}_door"
    await inbox.execute(f"create role {role} login password 'x' in role inboxd_receiver")
    try:
        receiver = await start_receiver(dsn=inbox.dsn.replace("postgres@", f"{role}:x@"))
        provider = provider_of(receiver)
        assert (await provider.offer("a")).accepted
        assert await receiver.stop() == 0
        assert await _states(inbox) == ["stopped"]
        await verify(inbox, provider)
    finally:
        await inbox.execute(f"drop role {role}")


async def test_the_receiver_works_behind_a_pooler(
    inbox: Database, start_receiver: StartReceiver, provider_of: MakeProvider
) -> None:
    with pgbouncer(inbox.dsn) as way:
        receiver = await start_receiver(dsn=way.dsn, config=TRANSACTIONS_ONLY)
        provider = provider_of(receiver)
        async with provider.load(keys=4):
            await provider.goes_on()
        assert await receiver.stop() == 0
    assert set(provider.ended) == {"202"}
    assert await _states(inbox) == ["stopped"]
    await verify(inbox, provider)


async def test_a_port_in_use_is_reported_in_one_line(start_receiver: StartReceiver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        receiver = await start_receiver(port=port, ready=False)
        assert await receiver.wait() == 78
    [line] = receiver.output().splitlines()
    assert f"inbound.http.port {port}" in line


async def test_an_unusable_key_ends_with_78(start_receiver: StartReceiver) -> None:
    receiver = await start_receiver(source={"keys": [{"secret": "whsec_short"}]}, ready=False)
    assert await receiver.wait() == 78
    assert "[inbound.webhooks.bets]" in receiver.output()
    assert "whsec_short" not in receiver.output()


async def test_doubts_of_a_scheme_are_logged(start_receiver: StartReceiver) -> None:
    token = {"scheme": "bearer", "keys": [{"secret": "short"}], "dedup_key": ""}
    receiver = await start_receiver(source=token)
    await receiver.logged("could be guessed")
    assert '"source":"bets"' in receiver.output()
    _replace(receiver, "short", "a token that is long enough")
    await receiver.logged("settings are reloaded")
    assert receiver.output().count("could be guessed") == 1


# ------------------------------------------------------------------------------- its settings


async def test_hup_reloads_keys_and_keeps_connections(
    inbox: Database, start_receiver: StartReceiver, provider_of: MakeProvider
) -> None:
    receiver = await start_receiver()
    old = provider_of(receiver)
    new = provider_of(receiver, sign=standard_webhooks(_OTHER))
    assert (await old.offer("a")).accepted
    assert [answer.status for answer in (await new.offer("a")).answers] == [401]
    _replace(receiver, SECRET, _OTHER)
    await _answered(new, 202)
    entry = await old.offer("a")
    assert [answer.status for answer in entry.answers] == [401]
    assert (old.ended["lost"], new.ended["lost"]) == (0, 0)
    receiver.holds()
    rows = await inbox.fetch("select outcome from inboxd.receipts")
    assert len(rows) == old.accepted + new.accepted


async def test_hup_with_invalid_settings_changes_nothing(
    start_receiver: StartReceiver, provider_of: MakeProvider
) -> None:
    receiver = await start_receiver()
    _replace(receiver, SECRET, "whsec_short")
    await receiver.logged("settings are not reloaded")
    provider = provider_of(receiver)
    assert (await provider.offer("a")).accepted
    _replace(receiver, "whsec_short", SECRET)
    await receiver.logged("settings are reloaded")
    assert (await provider.offer("a")).accepted


async def test_hup_reloads_the_certificate(start_receiver: StartReceiver, tmp_path: Path) -> None:
    receiver = await start_receiver(http=write_certificate(tmp_path, "one"))

    async def presented() -> str:
        address = ("127.0.0.1", receiver.port)
        return await anyio.to_thread.run_sync(ssl.get_server_certificate, address)

    first = await presented()
    assert await presented() == first
    write_certificate(tmp_path, "two")
    receiver.reload()
    await receiver.logged("settings are reloaded")
    renewed = await presented()
    assert renewed != first
    (tmp_path / "receiver.key").write_text("nothing")
    receiver.reload()
    await receiver.logged("settings are not reloaded")
    assert await presented() == renewed


async def test_a_source_paused_with_refuse_is_answered_503(
    inbox: Database, start_receiver: StartReceiver, provider_of: MakeProvider
) -> None:
    receiver = await start_receiver()
    provider = provider_of(receiver)
    await inbox.execute(
        "insert into inboxd.controls (kind, name, actor, mode)"
        " values ('source', 'bets', 'test', 'refuse')"
    )
    await _answered(provider, 503)
    assert "retry-after" in provider.refusals[-1].headers
    receiver.reload()  # the pause in the database outlives a reload of the settings
    await receiver.logged("settings are reloaded")
    entry = await provider.offer("a")
    assert [answer.status for answer in entry.answers] == [503]
    await inbox.execute("delete from inboxd.controls")
    await _answered(provider, 202)
    assert await inbox.fetchval("select count(*) from inboxd.receipts") == provider.accepted


async def test_the_receiver_s_row_shows_its_sources(
    inbox: Database, start_receiver: StartReceiver
) -> None:
    receiver = await start_receiver()
    [row] = await inbox.fetch("select * from inboxd.receivers")
    assert (row["pid"], row["sources"], row["holds"]) == (receiver.process.pid, ["bets"], [])
    _replace(receiver, '"type" =', '"paused" = "hold", "type" =')

    async def is_shown() -> bool:
        return bool(await inbox.fetchval("select holds from inboxd.receivers") == ["bets"])

    await eventually(is_shown)
    assert await inbox.fetchval("select count(*) from inboxd.workers") == 0


# --------------------------------------------------------------------------------------- its end


async def test_a_request_in_progress_is_answered_at_a_stop(
    inbox: Database, start_receiver: StartReceiver, provider_of: MakeProvider
) -> None:
    receiver = await start_receiver()
    provider = provider_of(receiver)
    wire, raw = await _half_sent(receiver, provider)
    receiver.process.terminate()
    await receiver.logged('"draining"')
    with pytest.raises(OSError, match="connection attempts failed"):
        await anyio.connect_tcp("127.0.0.1", receiver.port)
    assert await _states(inbox) in (["running"], ["draining"])
    wire.send(raw[-1:])
    answer = await wire.answer()
    wire.close()
    assert (answer.status, answer.headers["connection"]) == (202, "close")
    assert await receiver.wait() == 0
    assert await _states(inbox) == ["stopped"]
    with safety():
        assert await inbox.fetchval("select count(*) from inboxd.receipts") == 1


async def test_a_second_term_ends_the_receiver_at_once(
    start_receiver: StartReceiver, provider_of: MakeProvider
) -> None:
    receiver = await start_receiver(config={"worker": {"drain_timeout": "1h"}})
    wire, _ = await _half_sent(receiver, provider_of(receiver))
    receiver.process.terminate()
    await receiver.logged('"draining"')
    receiver.process.terminate()
    assert await receiver.wait() == 0
    with pytest.raises(NoAnswer):
        await wire.answer()


async def _half_sent(receiver: Receiver, provider: Provider) -> tuple[Wire, bytes]:
    """A connection that has sent all of a request but its last byte."""
    body = provider.entry("a").body
    headers = {"content-type": "application/json", **standard_webhooks()(body, "msg_1")}
    raw = request("/in/bets", body, headers)
    wire = await Wire.connect(receiver.port)
    wire.send(raw[:-1])

    async def is_in_flight() -> bool:
        return await receiver.metric("inboxd_webhook_in_flight_requests") == 1

    await eventually(is_in_flight)
    return wire, raw


async def test_a_killed_receiver_is_recognized_by_its_silence(
    inbox: Database, start_receiver: StartReceiver
) -> None:
    receiver = await start_receiver()
    receiver.process.send_signal(signal.SIGKILL)
    await receiver.wait()
    assert await _states(inbox) == ["running"]
    again = await start_receiver(port=receiver.port)
    await inbox.execute(
        "update inboxd.receivers set beat_at = now() - interval '8 days' where pid = $1",
        receiver.process.pid,
    )
    assert await again.stop() == 0
    await start_receiver(port=receiver.port)
    assert await _states(inbox) == ["stopped", "running"], (
        "a receiver that was silent for a week is removed"
    )
