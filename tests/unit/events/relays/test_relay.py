"""How a relay opens its publishers."""

from typing import Any
from unittest.mock import MagicMock

import pytest

from inboxd.brokers import kinds
from inboxd.events.relays.relay import RelayRunner
from inboxd.settings import Settings

pytestmark = pytest.mark.anyio


async def test_the_publisher_of_a_kind_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin's is looked up on the disk, which blocks the loop meanwhile."""
    sought: list[str] = []
    opened: list[str] = []

    async def open_publisher(name: str, _: object) -> MagicMock:
        opened.append(name)
        return MagicMock()

    def publisher_of(kind: str) -> Any:
        sought.append(kind)
        return open_publisher

    monkeypatch.setattr(kinds, "publisher_of", publisher_of)
    parts = MagicMock()
    parts.settings = Settings.model_validate(
        {
            "brokers": {"own": {"kind": "pigeon"}},
            "relays": {"results": {"broker": "own", "types": ["match.result"]}},
        }
    )
    some = MagicMock()
    runner = RelayRunner(parts, some, some, some, "results", wake=some, holds_lease=some)
    for _ in range(3):
        assert await runner._open(MagicMock()) is not None
    assert sought == ["pigeon"]
    assert opened == ["own"] * 3
