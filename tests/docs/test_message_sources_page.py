"""The page on sources of messages: its settings are accepted."""

import re
import tomllib
from pathlib import Path

from inboxd.settings import Settings
from inboxd.settings.contradictions import contradictions

PAGE = (Path(__file__).parents[2] / "docs/message-sources.md").read_text()


def test_the_settings_are_accepted() -> None:
    [block] = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    settings = Settings.model_validate(tomllib.loads(block))
    assert [*contradictions(settings)] == []
    assert sorted(settings.inbound.messages) == ["shop"]
