"""A process without the extra `http`: its settings decide whether that is wrong."""

import json
import subprocess
import sys
from typing import Any

from tests.support.waiting import patient

# Hides aiohttp as if it were not installed; then does what a worker does at its start.
WITHOUT = """
import json, sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "aiohttp":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())

import inboxd.daemon.incarnation
from inboxd.errors import UsageError
from inboxd.outbound.plugin import built_in
from inboxd.settings import Settings

def said(settings):
    try:
        return str(built_in(Settings.model_validate(settings)))
    except UsageError as error:
        return str(error)

print(json.dumps([said(each) for each in json.loads(sys.argv[1])]))
"""
ENDPOINT = {"url": "https://example.com/", "types": ["*"], "secret_file": "/etc/inboxd/secret"}


ASKING: tuple[dict[str, Any], ...] = (
    {"targets": {"bank": {"url": "https://bank.example"}}},
    {"endpoints": {"shop": ENDPOINT}},
    {"outbound": {"http": {"enabled": True}}},
    {"outbound": {"webhooks": {"enabled": True}}},
)


def test_only_settings_that_need_it_are_an_error_and_that_names_the_remedy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, json.dumps([*ASKING, {}])],
        capture_output=True,
        text=True,
        check=True,
        timeout=patient(60),
    )
    *told, nothing = json.loads(done.stdout)
    assert nothing == "None"
    for text in told:
        assert "pip install 'inboxd[http]'" in text
        assert "[targets], [endpoints], [outbound]" in text
