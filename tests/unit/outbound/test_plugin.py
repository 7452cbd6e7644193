"""A process without the extra `http`: only settings that need it are an error."""

import json
import subprocess
import sys
from typing import Any

from tests.support.waiting import patient

# Makes aiohttp look uninstalled; then does what a worker does at its start.
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


def test_settings_that_need_the_missing_extra_are_an_error_with_a_remedy() -> None:
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
