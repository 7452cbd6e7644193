"""Sources of webhooks: defaults, problems, contradictions, and secrets that are never shown."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from inboxd.errors import SettingsError
from inboxd.settings import Settings, describe, load, reloadable, taken_over

SOURCE = '[inbound.webhooks.bank]\ntype = "bank.paid"\n'
KEYS = 'keys = [{ id = "a", secret = "hunter2" }]\n'
UNTIL = "not_after = 2026-12-01"
PROXIES = '[inbound.http]\ntrusted_proxies = ["127.0.0.1"]\n'


def shown(settings: Settings) -> dict[str, str]:
    return {key: value for key, value, _ in describe(settings)}


def refusal(path: Path | None, environ: dict[str, str] | None = None, **more: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        load(path, environ or {}, **more)
    assert "hunter2" not in str(caught.value)
    return str(caught.value)


# --- valid settings ----------------------------------------------------------------------------


def test_by_default_nothing_listens_and_there_are_no_sources() -> None:
    inbound = load(None, {}).inbound
    assert not inbound.http.enabled
    assert inbound.http.host == "127.0.0.1"
    assert inbound.webhooks == {}


def test_minimal_source_is_valid(written: Any) -> None:
    settings = load(written(SOURCE + KEYS), {})
    source = settings.inbound.webhooks["bank"]
    assert source.scheme == "standard_webhooks"
    assert source.tolerance == timedelta(minutes=5)
    assert (source.answer, source.paused, source.dedup_key) == (202, "no", None)
    (key,) = source.keys
    assert key.secret is not None
    assert key.secret.get_secret_value() == "hunter2"


def test_names_of_headers_become_lower_case(written: Any) -> None:
    path = written(
        SOURCE + KEYS + 'headers = ["X-Request-Id"]\ndedup_key = "header:X-Id"\nscheme = "hmac"\n'
        'hmac = { header = "X-Sign", timestamp_header = "X-Time" }\n'
    )
    source = load(path, {}).inbound.webhooks["bank"]
    assert source.hmac is not None
    assert (source.headers, source.dedup_key) == (("x-request-id",), "header:x-id")
    assert (source.hmac.header, source.hmac.timestamp_header) == ("x-sign", "x-time")


def test_times_of_keys_are_dates_times_or_texts(written: Any) -> None:
    path = written(
        SOURCE + "[[inbound.webhooks.bank.keys]]\n"
        'id = "a"\nsecret = "s"\nnot_before = 2026-11-01\nnot_after = 2026-12-01T12:00:00+01:00\n'
        '[[inbound.webhooks.bank.keys]]\nid = "b"\nsecret = "s"\nnot_after = "2026-12-01T00:00Z"\n'
    )
    first, second = load(path, {}).inbound.webhooks["bank"].keys
    assert first.not_before == datetime(2026, 11, 1, tzinfo=UTC)
    assert first.not_after == datetime(2026, 12, 1, 11, tzinfo=UTC)
    assert second.not_after == datetime(2026, 12, 1, tzinfo=UTC)


def test_the_environment_may_have_a_whole_source() -> None:
    environ = {
        "INBOXD_INBOUND__HTTP__PORT": "9000",
        "INBOXD_INBOUND__WEBHOOKS__BANK__TYPE": "bank.paid",
        "INBOXD_INBOUND__WEBHOOKS__BANK__ANSWER": "200",
        "INBOXD_INBOUND__WEBHOOKS__BANK__ADDRESSES": "192.0.2.0/24, 2001:db8::/32",
        "INBOXD_INBOUND__WEBHOOKS__BANK__KEYS": json.dumps([{"id": "a", "secret": "hunter2"}]),
    }
    settings = load(None, environ)
    source = settings.inbound.webhooks["bank"]
    assert settings.inbound.http.port == 9000
    assert (source.answer, source.addresses) == (200, ("192.0.2.0/24", "2001:db8::/32"))
    assert source.keys[0].id == "a"


def test_the_environment_may_have_a_whole_source_as_one_text() -> None:
    source = {"type": "bank.paid", "keys": [{"id": "a", "secret": "hunter2"}]}
    settings = load(None, {"INBOXD_INBOUND__WEBHOOKS__BANK": json.dumps(source)})
    assert settings.inbound.webhooks["bank"].keys[0].id == "a"
    message = refusal(None, {"INBOXD_INBOUND__WEBHOOKS__BANK": '{"keys": "hunter2'})
    assert "a table is given as JSON" in message


# --- secrets -----------------------------------------------------------------------------------


def test_no_secret_is_shown(written: Any) -> None:
    settings = load(written(SOURCE + KEYS), {})
    assert "hunter2" not in f"{settings!r} {settings} {describe(settings)}"
    assert shown(settings)["inbound.webhooks.bank.keys"] == "a (secret)"


@pytest.mark.parametrize(
    "keys",
    [
        'keys = [{ id = "a", secret = ["hunter2"] }]',
        'keys = [{ id = "a", secrt = "hunter2" }]',
        'keys = [{ id = "a", secret = "hunter2", not_after = "soon" }]',
        'keys = { a = "hunter2" }',
        'keys = "hunter2"',
        'keys = ["hunter2"]',
        'secret = "hunter2"',
    ],
)
def test_no_secret_is_in_a_message_about_a_key(written: Any, keys: str) -> None:
    path = written(f"{SOURCE}{keys}\n")
    message = refusal(path)
    assert str(path) in message
    assert "inbound.webhooks.bank" in message


def test_a_secret_file_is_read_again_at_each_load(written: Any, tmp_path: Path) -> None:
    secret = tmp_path / "bank"
    secret.write_text("hunter2\n")
    path = written(f'{SOURCE}keys = [{{ id = "a", secret_file = "{secret}" }}]\n')
    before = load(path, {})
    (key,) = before.inbound.webhooks["bank"].keys
    assert key.secret is not None
    assert key.secret.get_secret_value() == "hunter2"
    assert shown(before)["inbound.webhooks.bank.keys"] == f"a (secret from {secret})"
    assert before.source_of("inbound.webhooks.bank.keys") == f"{path}, {secret}"
    secret.write_text("hunter3\n")
    assert reloadable(before, load(path, {})).live == ("inbound.webhooks.bank.keys",)


@pytest.mark.parametrize("place", ["systemd", "docker", "both"])
def test_a_key_alone_finds_its_secret_file(written: Any, tmp_path: Path, place: str) -> None:
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)} if place != "docker" else {}
    if place != "docker":
        (tmp_path / "webhook_bank_2026-11").write_text("systemd")
    if place != "systemd":
        (tmp_path / "inboxd_webhook_bank_2026-11").write_text("docker")
    path = written(f'{SOURCE}keys = [{{ id = "2026-11" }}]\n')
    (key,) = load(path, environ, docker_secrets=tmp_path).inbound.webhooks["bank"].keys
    assert key.secret is not None
    assert key.secret.get_secret_value() == ("systemd" if place == "both" else place)


def test_a_secret_file_that_cannot_be_read_is_a_problem_of_its_own(written: Any) -> None:
    message = refusal(written(f'{SOURCE}keys = [{{ secret_file = "/nowhere/bank" }}]\n'))
    assert message == (
        "/nowhere/bank: cannot read the secret (No such file or directory); check the path and "
        "that the daemon's user may read it"
    )


# --- invalid values ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Authorization", "proxy-authorization", "Cookie"])
def test_credential_headers_are_never_kept(written: Any, name: str) -> None:
    message = refusal(written(f'{SOURCE}{KEYS}headers = ["x-id", "{name}"]\n'))
    assert f"{name.lower()} is never kept, since it holds credentials" in message
    message = refusal(written(f'{SOURCE}{KEYS}ordering_key = "header:{name}"\n'))
    assert "is never kept" in message


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('dedup_key = "/id"', 'must be "header:…", "pointer:…", "body" or ""'),
        ('ordering_key = "body"', 'must be "header:…", "pointer:…" or "text:…"'),
        ('ordering_key = "text:"', "text: must be followed by a text"),
        ('ordering_key = "pointer:id"', "a JSON pointer begins with a slash"),
        ('ordering_key = "pointer:/a~2"', "write ~ as ~0"),
        ('type_from = "text:a"', 'must be "header:…" or "pointer:…"'),
        ('items = "results"', "a JSON pointer begins with a slash"),
        ('headers = ["a b"]', "a header's name has letters, digits and hyphens"),
        ('addresses = ["192.0.2.1/24"]', "has host bits set; write an address range such as"),
        ("answer = 302", ": must be 200, 201, 202 or 204 (given: 302)"),
        ("keys = [{ not_after = 2026-12-01T00:00:00 }]", "must have a time zone"),
        ('keys = [{ id = "a/b" }]', "must match the pattern '"),
        ('hmac = { header = "a", encoding = "hax" }', "must be 'hex', 'base64' or 'base64url'"),
    ],
)
def test_a_mistake_is_reported_with_what_is_allowed(written: Any, line: str, told: str) -> None:
    path = written(f"{SOURCE}{line}\n")
    (message,) = refusal(path).splitlines()
    assert message.startswith(f"{path}: [inbound.webhooks.bank")
    assert told in message


def test_the_name_of_a_source_is_a_part_of_its_address(written: Any) -> None:
    path = written('[inbound.webhooks."a b"]\ntype = "a"\n')
    assert refusal(path).startswith(
        f"{path}: [inbound.webhooks] a b: the name of a source is a part of its address"
    )


# --- contradictions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (f"[inbound.webhooks.bank]\n{KEYS}", "its events have no type"),
        (f'{SOURCE}{KEYS}type_from = "pointer:/t"\n', "type and type_from are both set"),
        (f'{SOURCE}{KEYS}type_prefix = "x."\n', "type_prefix needs type_from"),
        (SOURCE, 'scheme = "standard_webhooks" needs keys'),
        (f'{SOURCE}scheme = "stripe"\n', 'scheme = "stripe" needs keys'),
        (f'{SOURCE}{KEYS}scheme = "hmac"\n', 'scheme = "hmac" needs hmac = {'),
        (f'{SOURCE}{KEYS}hmac = {{ header = "a" }}\n', 'hmac is for scheme = "hmac"'),
        (
            f'{SOURCE}{KEYS}scheme = "hmac"\nhmac = {{ header = "a" }}\noptions = {{ a = 1 }}\n',
            "options is for schemes without a table of their own",
        ),
        (
            f'{PROXIES}{SOURCE}scheme = "client_certificate"\n',
            'scheme = "client_certificate" needs certificate = {',
        ),
        (
            f'{PROXIES}{SOURCE}scheme = "client_certificate"\ncertificate = {{}}\n',
            "certificate.subjects is empty, so no request is accepted",
        ),
        (
            f'{SOURCE}scheme = "client_certificate"\ncertificate = {{ subjects = ["CN=a"] }}\n',
            "needs inbound.http.trusted_proxies, or anybody could send the proxy's header",
        ),
        (f'{SOURCE}keys = [{{ id = "a" }}]\n', "key 'a' has no secret; set secret_file"),
        (
            f'{SOURCE}keys = [{{ secret = "hunter2", secret_file = "/a" }}]\n',
            "key '1' has secret and secret_file; leave one out",
        ),
        (
            f'{SOURCE}keys = [{{ secret = "hunter2", public_key = "whpk_a" }}]\n',
            "has a secret and a public_key; leave one out",
        ),
        (
            f'{SOURCE}scheme = "github"\nkeys = [{{ public_key = "whpk_a" }}]\n',
            "has a public_key, which scheme 'github' cannot use",
        ),
        (
            f'{SOURCE}keys = [{{ secret = "a" }}, {{ secret = "b" }}]\n',
            "2 keys have the id '1'; give each key an id of its own",
        ),
        (
            f'{SOURCE}keys = [{{ secret = "a", not_before = 2026-12-01, {UNTIL} }}]\n',
            "key '1' is never valid: its not_after is not later than its not_before",
        ),
        (
            f'{SOURCE}{KEYS}items = "/results"\nbody = "form"\n',
            'items needs body = "json": there is no array in a form',
        ),
        (
            f'{SOURCE}{KEYS}tenant = "pointer:/t"\nbody = "text"\n',
            'tenant is a pointer, but body = "text" is not JSON',
        ),
        (f"{SOURCE}{KEYS}burst = 5\n", "burst needs rate"),
        (f'{SOURCE}{KEYS}max_body = "65MiB"\n', "max_body is more than inbound.http.max_bytes"),
    ],
)
def test_contradiction_in_a_source_is_refused(written: Any, lines: str, told: str) -> None:
    (message,) = refusal(written(lines)).splitlines()
    assert "[inbound.webhooks.bank]" in message
    assert told in message


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('host = "0.0.0.0"', "host '0.0.0.0' can be reached from other machines"),
        ('certificate = "/a"', "certificate and private_key belong together"),
        ('private_key = "/a"', "certificate and private_key belong together"),
        ("burst_per_address = 5", "burst_per_address needs rate_per_address"),
        ("enabled = true\nport = 8797", "http.port and inbound.http.port are both 8797"),
    ],
)
def test_contradiction_in_the_listener_is_refused(written: Any, lines: str, told: str) -> None:
    (message,) = refusal(written(f"[inbound.http]\n{lines}\n")).splitlines()
    assert told in message


@pytest.mark.parametrize(
    "lines",
    [
        'host = "0.0.0.0"\ncertificate = "/a"\nprivate_key = "/b"',
        'host = "0.0.0.0"\nallow_remote = true',
        'host = "::1"',
        "enabled = true\nport = 0",
    ],
)
def test_reachable_listener_is_encrypted_or_allowed(written: Any, lines: str) -> None:
    load(written(f"[inbound.http]\n{lines}\n"), {})


def test_a_source_with_a_mistake_contradicts_nothing(written: Any) -> None:
    path = written('[inbound.webhooks.bank]\ntyp = "a"\nscheme = "hmac"\n')
    (message,) = refusal(path).splitlines()
    assert "unknown setting 'typ'" in message


def test_plugins_scheme_checks_its_own_options(written: Any) -> None:
    path = written(f'{SOURCE}scheme = "acme"\noptions = {{ realm = "a" }}\n')
    assert load(path, {}).inbound.webhooks["bank"].of_scheme() == {"realm": "a"}


# --- description and reload --------------------------------------------------------------------


def test_meaning_of_an_empty_list_is_shown(written: Any) -> None:
    found = shown(load(written(SOURCE + KEYS), {}))
    assert found["inbound.webhooks.bank.addresses"] == "(all)"
    assert found["inbound.webhooks.bank.headers"] == "(none)"
    assert found["inbound.http.trusted_proxies"] == "(none)"
    assert found["inbound.webhooks.bank.topics"] == "(those that subscribe to the type)"


def test_a_reload_takes_sources_over_and_leaves_the_listener(written: Any) -> None:
    old = load(written(SOURCE + KEYS), {})
    new = load(
        written(
            f'[inbound.http]\nport = 9000\n{SOURCE}paused = "hold"\nkeys = [{{ secret = "b" }}]\n'
            '[inbound.webhooks.shop]\ntype = "shop.sold"\nkeys = [{ secret = "c" }]\n'
        ),
        {},
    )
    changes = reloadable(old, new)
    assert changes.restart == ("inbound.http.port",)
    assert {"inbound.webhooks.bank.keys", "inbound.webhooks.bank.paused"} < set(changes.live)
    now = taken_over(old, new)
    assert now.inbound.webhooks == new.inbound.webhooks
    assert now.inbound.http == old.inbound.http
