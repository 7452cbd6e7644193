"""`inboxd webhooks` with a running receiver: a sample is sent, shown, and sent again."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from inboxd.main import main
from tests.support import Database, eventually
from tests.support.receiver import TOPIC, MakeProvider, Receiver, StartReceiver
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


@pytest.fixture
def inbox(database: Database) -> Database:
    """A database on the server of all tests, which is fast: durability does not matter here."""
    anyio.run(database.execute, TOPIC)
    return database


async def webhooks(receiver: Receiver, *arguments: str, ends: int = 0) -> Any:
    """Run a command with the receiver's settings, in this process."""
    settings = str(receiver.log.with_suffix(".toml"))

    def run() -> str:
        with redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit) as ended:
            main(["webhooks", *arguments, "-c", settings, "--json"])
        assert ended.value.code == ends
        return out.getvalue()

    return json.loads(await anyio.to_thread.run_sync(run))


async def test_a_sample_is_received_shown_and_sent_again(
    inbox: Database, start_receiver: StartReceiver, tmp_path: Path
) -> None:
    receiver = await start_receiver()
    sample = tmp_path / "sample.json"
    sample.write_bytes(b'{ "match" : "m1", "n": 1 }')
    sent = await webhooks(receiver, "send", "--source", "bets", "--file", str(sample))
    assert sent["status"] == 202
    receipt, (event,) = sent["answer"]["receipt"], sent["answer"]["events"]
    shown = await webhooks(receiver, "show", event, "--payload")
    assert (shown["receipt_id"], shown["became"]) == (receipt, "pending")
    assert shown["body"] == {"match": "m1", "n": 1}
    again = await webhooks(
        receiver, "replay", event, "--url", f"http://127.0.0.1:{receiver.port}/in/bets"
    )
    assert (again["status"], again["signed"]) == (202, "anew")
    assert again["answer"]["events"] == [event], "the same id makes it a duplicate"
    listed = (await webhooks(receiver, "list"))["receipts"]
    assert [each["outcome"] for each in listed] == ["duplicate", "stored"]
    assert again["answer"]["receipt"] != receipt, "each request has a receipt of its own"
    assert [each["receipt_id"] for each in listed] == [again["answer"]["receipt"], receipt]
    with safety():
        assert len(await inbox.fetch("select from inboxd.events")) == 1
    receiver.holds()


async def test_a_pause_takes_effect_in_the_receiver(
    inbox: Database, start_receiver: StartReceiver, provider_of: MakeProvider, tmp_path: Path
) -> None:
    receiver = await start_receiver()
    provider = provider_of(receiver)
    await webhooks(receiver, "pause", "bets")
    assert [answer.status for answer in (await provider.offer("m1")).answers] == [202]
    assert await inbox.fetch("select from inboxd.events") == []
    assert (await webhooks(receiver, "resume", "bets"))["released"] == 1
    with safety():
        assert len(await inbox.fetch("select from inboxd.events")) == 1
    await webhooks(receiver, "pause", "bets", "--refuse")

    async def is_noticed() -> bool:
        return '"refused":["bets"]' in receiver.output()

    await eventually(is_noticed, 10)
    sample = tmp_path / "sample.json"
    sample.write_bytes(b'{"match": "m1"}')
    sent = await webhooks(receiver, "send", "--source", "bets", "--file", str(sample), ends=1)
    assert sent["status"] == 503
    receiver.holds()
