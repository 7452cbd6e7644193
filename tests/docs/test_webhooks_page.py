"""The page on webhooks: its settings are accepted, and its handler handles a webhook."""

import re
import tomllib
from pathlib import Path

import pytest

from inboxd import Handlers
from inboxd.settings import Settings, WebhookSource
from inboxd.settings.contradictions import contradictions
from inboxd.testing import run_event
from tests.support.types import StrictTypes, assert_accepted

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/webhooks.md").read_text()

RESULT = {
    "matchExternalId": "7",
    "homeScore": 2,
    "awayScore": 1,
    "status": "FINISHED",
    "providerEventId": "e1",
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_settings_are_accepted() -> None:
    source, proxied = blocks("toml")
    assert len([line for line in source.splitlines() if line]) <= 10
    for text in (source, proxied):
        settings = Settings.model_validate(tomllib.loads(text))
        assert [*contradictions(settings)] == []
        assert settings.inbound.http.enabled


@pytest.mark.anyio
async def test_handler_handles_webhooks_of_the_source(tmp_path: Path, strict: StrictTypes) -> None:
    (code,) = blocks("python")
    plugin = tmp_path / "plugin.py"
    plugin.write_text(code)
    assert_accepted(strict(plugin))
    names: dict[str, object] = {"__name__": "webhooks_page"}
    exec(code, names)  # noqa: S102 - code of our own page
    handlers = names["handlers"]
    assert isinstance(handlers, Handlers)
    source = tomllib.loads(blocks("toml")[0])["inbound"]["webhooks"]["results"]
    for key in ("dedup_key", "ordering_key"):
        assert source[key].removeprefix("pointer:/") in RESULT
    ran = await run_event(handlers, source["type"], RESULT)
    assert [(sent.type, sent.payload) for sent in ran.commands] == [("bets.settle", {"match": "7"})]


def test_every_setting_of_the_page_exists() -> None:
    table = PAGE.partition("## From a request to an event")[2].partition("Pointers are")[0]
    named = {
        name
        for row in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
        for name in row.split("`")
    }
    settings = {name for name in named if re.fullmatch(r"[a-z_]+", name) and name != "with"}
    assert len(settings) > 7
    assert settings <= WebhookSource.model_fields.keys()
