"""The page on brokers: its settings are accepted, and its publisher publishes."""

import asyncio
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from inboxd import Broker, BrokerUnavailable, MessageRefused, OutgoingMessage
from inboxd.settings import Settings
from inboxd.settings.contradictions import contradictions
from tests.support.types import StrictTypes, assert_accepted

PAGE = (Path(__file__).parents[2] / "docs/brokers.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_settings_of_relays_are_accepted() -> None:
    first, second, _ = blocks("toml")
    assert len([line for line in first.splitlines() if line]) == 10
    settings = Settings.model_validate(tomllib.loads(first + second))
    assert [*contradictions(settings)] == []
    assert sorted(settings.relays) == ["goals", "results"]


def test_settings_of_sources_are_accepted() -> None:
    settings = Settings.model_validate(tomllib.loads(blocks("toml")[2]))
    assert [*contradictions(settings)] == []
    assert sorted(settings.inbound.messages) == ["shop"]


@pytest.mark.anyio
async def test_the_publisher_of_the_page_publishes(tmp_path: Path, strict: StrictTypes) -> None:
    (code,) = blocks("python")
    plugin = tmp_path / "plugin.py"
    plugin.write_text(code)
    assert_accepted(strict(plugin))
    names: dict[str, Any] = {"__name__": "brokers_page"}
    exec(code, names)  # noqa: S102 - code of our own page
    told: dict[int, Exception | None] = {}
    taken: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if line == b"c 3\n":
                break
            taken.append(line)
            writer.write(b"no room\n" if line == b"b 2\n" else b"taken\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        broker = Broker(kind="lines", servers=(place,))
        publisher = await names["open_publisher"]("main", broker)
        await publisher.publish([message("a", b"1"), message("b", b"2")], told.__setitem__)
        with pytest.raises(BrokerUnavailable):
            await publisher.publish([message("c", b"3")], told.__setitem__)
        await publisher.close()
    assert taken == [b"a 1\n", b"b 2\n"]
    assert told[0] is None
    assert isinstance(told[1], MessageRefused)
    with pytest.raises(BrokerUnavailable, match="'main' cannot be reached"):
        await names["open_publisher"]("main", broker)


def message(id_: str, body: bytes) -> OutgoingMessage:
    return OutgoingMessage(to="t.v1", key=None, id=id_, body=body)
