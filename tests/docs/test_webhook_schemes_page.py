"""docs/webhook-schemes.md: its settings make verifiers, and its plugin is found and verifies."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from inboxd.errors import SettingsError
from inboxd.settings import WebhookSource, load
from inboxd.signatures import Key, Malformed, SignedRequest, Unauthentic, Verifier, verifier
from tests.support.plugins import install
from tests.support.types import StrictTypes, assert_accepted

PAGE = (Path(__file__).parents[2] / "docs/webhook-schemes.md").read_text()
BLOCKS = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
(PLUGIN,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
SETTINGS = "\n".join(block for block in BLOCKS if "[inbound." in block)
POINTS = "\n".join(block for block in BLOCKS if "entry-points" in block)
# 2026-06-01
NOW = 1_780_272_000.0
BODY = b'{"reference": "7"}'


def sources(folder: Path) -> dict[str, WebhookSource]:
    (folder / "inboxd.toml").write_text(SETTINGS)
    return dict(load(folder / "inboxd.toml", {}).inbound.webhooks)


def made(source: WebhookSource) -> Verifier:
    keys = [
        Key(
            each.id,
            each.secret.get_secret_value().encode() if each.secret else b"",
            not_after=each.not_after.timestamp() if each.not_after else None,
            public_key=each.public_key or "",
        )
        for each in source.keys
    ]
    tolerance = source.tolerance.total_seconds()
    return verifier(source.scheme, keys, tolerance=tolerance, options=source.of_scheme())


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The plugin of the page, installed with the entry point of the page."""
    points = POINTS.replace('[project.entry-points."inboxd.verifiers"]', "[inboxd.verifiers]")
    folder = install(tmp_path / "plugins", "bank_mac", PLUGIN, points=points.replace('"', ""))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "bank_mac", raising=False)
    return folder / "bank_mac.py"


def test_settings_of_the_page_verify_their_own_signatures(tmp_path: Path, plugin: Path) -> None:
    found = sources(tmp_path)
    schemes = {source.scheme for source in found.values()}
    named = re.findall(r"^\| \[`(\w+)`\]", PAGE, re.MULTILINE)
    assert schemes == {*named, "bank_mac"}
    for name, source in found.items():
        mine = made(source)
        assert mine.doubts == (), name
        if name == "asymmetric":
            continue  # only the sender has the private key
        headers = mine.sign(BODY, "m_1", NOW)
        sent = SignedRequest(headers, BODY, "/in/x", from_trusted_proxy=True)
        first = source.keys[0].id if source.keys else "CN=sender.example,O=Sender"
        assert mine.verify(sent, NOW) == first, name
        with pytest.raises((Unauthentic, Malformed)):
            mine.verify(sent._replace(headers={}), NOW)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the page signs with openssl")
def test_request_signed_by_hand_with_openssl_is_valid(tmp_path: Path) -> None:
    (by_hand,) = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    # Print the arguments of curl.
    told = 'curl() { printf "%s\\0" "$@"; }\n'
    shell = ["/bin/sh", "-c", told + by_hand]
    ran = subprocess.run(shell, capture_output=True, check=True, text=True)
    given = ran.stdout.split("\0")
    headers = dict(given[n + 1].split(": ", 1) for n, each in enumerate(given) if each == "-H")
    body = given[given.index("--data-raw") + 1].encode()
    name = urlsplit(next(each for each in given if each.startswith("http://"))).path.split("/")[-1]
    sent = SignedRequest(headers, body)
    now = float(headers["webhook-timestamp"])
    assert made(sources(tmp_path)[name]).verify(sent, now) == "1"
    with pytest.raises(Unauthentic):
        made(sources(tmp_path)[name]).verify(sent._replace(body=body + b" "), now)


def test_dedup_keys_are_those_of_the_page(tmp_path: Path) -> None:
    keys = {
        name: made(source).default_dedup_key
        for name, source in sources(tmp_path).items()
        if name != "giro"
    }
    assert keys["standard"] == "header:webhook-id"
    assert keys["svix"] == "header:svix-id"
    assert keys["stripe"] == "pointer:/id"
    assert keys["github"] == "header:x-github-delivery"
    assert (keys["tokens"], keys["bank"], keys["slack"]) == (None, None, None)


def test_the_plugin_of_the_page_passes_strict_types(plugin: Path, strict: StrictTypes) -> None:
    assert_accepted(strict(plugin))


def test_plugin_of_the_page_refuses_unsigned_requests(plugin: Path) -> None:
    key, options = Key("1", b"from-the-banks-letter"), {"branch": "0815"}
    mine = verifier("bank_mac", [key], tolerance=300, options=options)
    sent = SignedRequest(mine.sign(BODY, "", NOW), BODY)
    assert mine.verify(sent, NOW + 300) == "1"
    for changed, error in (
        (sent._replace(body=BODY + b" "), Unauthentic),
        (sent._replace(headers={**sent.headers, "x-bank-mac": "ÿ"}), Unauthentic),
        (sent._replace(headers={**sent.headers, "x-bank-time": "²"}), Malformed),
        (sent._replace(headers={}), Malformed),
    ):
        with pytest.raises(error):
            mine.verify(changed, NOW)
    with pytest.raises(Malformed, match="stale"):
        mine.verify(sent, NOW + 301)
    with pytest.raises(SettingsError, match=r"bank_mac 1\.0, .*: options\.branch is missing"):
        verifier("bank_mac", [key], tolerance=300)
