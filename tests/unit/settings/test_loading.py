"""Problems of settings: all at once, each with its place and the allowed values."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from inboxd.settings import (
    ANY,
    TopicOverride,
    load,
    read,
)
from tests.unit.settings.loaded import problems


def test_all_problems_at_once_each_with_its_place(written: Any) -> None:
    path = written(
        '[database]\ndns = "x"\npool_size = "many"\n[worker]\nlease = 30\n[databse]\nx = 1\n'
        '[queues.email]\nconcurency = 3\n[types."a.b"]\nretri = {}\n'
    )
    found = problems(path, {"INBOXD_HTTP__PORT": "70000", "INBOXD_WORKR__NAME": "w"})
    for place, *words in (
        (path, "[database]", "'dns'", "did you mean 'dsn'?"),
        (path, "[database] pool_size", "whole number", "'many'"),
        (path, "[worker] lease", "unit", "30"),
        (path, "[databse]", "did you mean 'database'?"),
        (path, "[queues.email]", "'concurency'", "did you mean 'concurrency'?"),
        (path, "[types.a.b]", "'retri'", "did you mean 'retry'?"),
        ("environment", "[http] port", "65535", "'70000'"),
        ("environment", "INBOXD_WORKR__NAME", "did you mean 'worker'?"),
    ):
        assert any(
            line.startswith(f"{place}: ") and all(word in line for word in words) for line in found
        ), words
    assert len(found) == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[queues.crm]\nkey_rate = "10/m"\nkey_concurrency = 2\n',
            "[queues.crm]: key_rate needs key_concurrency = 1",
        ),
        ('[worker]\nlease = "10s"\n', "heartbeat_interval must be at most a quarter of lease"),
        ('[events]\ntimeout = "60s"\n', "shorter than database.idle_in_transaction_timeout"),
        (
            "[events]\nchunk_concurrency = 5\n",
            "database.pool_size (5) must be larger than events.chunk_concurrency (5)",
        ),
        (
            "[database]\npool_size = 3\n",
            "raise database.pool_size, or lower events.chunk_concurrency",
        ),
        ('[http]\nhost = "0.0.0.0"\n', "allow_remote = true"),
        ('[http]\nhost = "db.example"\n', "allow_remote = true"),
        ('[database]\ntls_cert = "c.pem"\n', "tls_cert and tls_key belong together"),
        ('[database]\ntls_cert = "c.pem"\ntls_key = "k.pem"\n', "tls_cert needs tls_ca"),
        ('[database]\nschema = "Shop"\n', "[database] schema"),
        ('[database]\ndsn = "mysql://x/y"\n', "postgresql://"),
        ('[worker]\nlease = "30"\n', "unit"),
        ('[worker]\nlease = "0s"\n', "longer than zero"),
        ('[events]\npage_bytes = "32MB"\n', "KiB"),
        ('[log]\nlevel = "loud"\n', "'debug'"),
        ("worker = 3\n", "[worker]"),
        ("worker\n", "not valid TOML"),
    ],
)
def test_wrong_value_says_what_is_allowed(written: Any, text: str, message: str) -> None:
    assert message in "\n".join(problems(written(text)))


def test_all_contradictions_are_reported_at_once(written: Any) -> None:
    path = written(
        '[events]\ntimeout = "60s"\nchunk_concurrency = 5\n[database]\ntransaction_pooler = true\n'
        '[types."a.b"]\nretention = "1h"\n[types."c.d"]\nretention = "1m"\n'
    )
    found = problems(path)
    assert len(found) == 5
    for word in ("events.timeout", "pool_size (5)", "wakeups.mode", "types.a.b", "types.c.d"):
        assert any(word in line for line in found), word


def test_contradictions_are_reported_beside_wrong_values_with_places(written: Any) -> None:
    path = written(
        '[worker]\nlease = "10s"\npoll_interval = 5\n[http]\nhost = "0.0.0.0"\nport = "x"\n'
        '[database]\ntls_cert = "c.pem"\nconnect_timeout = 3\ndns = "x"\n'
        '[history]\nevents = "1h"\naudit = "1d"\ncommands = "30d"\n[types."a.b"]\n'
        'retention = "90d"\ntimeout = 3\n[types."c.d"]\nretention = "1h"\n'
        '[events]\ntimeout = "2m"\n'
    )
    found = problems(path, {"INBOXD_EVENTS__CHUNK_CONCURRENCY": "6", "INBOXD_LOG__LEVEL": "loud"})
    for start in (
        f"{path}: [worker] poll_interval: a duration is",
        f"{path}: [http] port: ",
        f"{path}: [database] connect_timeout: ",
        f"{path}: [database]: unknown setting 'dns'; did you mean 'dsn'?",
        f"{path}: [history] events: must be at least a day: history is dropped by days",
        f"{path}: [history] audit: must be at least 30 days",
        f"{path}: [types.a.b] timeout: ",
        f"{path}: [types.c.d] retention: must be at least a day",
        "environment: [log] level: ",
        f"{path}: [worker]: heartbeat_interval must be at most a quarter of lease",
        f"{path}: [http]: host '0.0.0.0' can be reached",
        f"{path}: [database]: tls_cert and tls_key belong together",
        f"{path}: [database]: tls_cert needs tls_ca",
        f"{path}: events.timeout must be shorter",
        "environment: database.pool_size (5) must be larger than events.chunk_concurrency (6)",
    ):
        assert [line.startswith(start) for line in found].count(True) == 1, start
    assert len(found) == 15, "history.events is invalid: no retention is compared with it"


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        ('[events]\ntimeout = "2m"\n[database]\nidle_in_transaction_timeout = 300\n', {}),
        ('[events]\ntimeout = "2m"\n[database]\nidle_in_transaction_timout = "5m"\n', {}),
        ('[events]\ntimeout = "2m"\n[databse]\nidle_in_transaction_timeout = "5m"\n', {}),
        ('[events]\ntimeout = "2m"\n[database]\npatience = "5m"\n', {}),
        ('[events]\ntimeout = "2m"\n', {"INBOXD_DATABSE__POOL_SIZE": "9"}),
        ('database = 3\n[events]\ntimeout = "2m"\nchunk_concurrency = 9\n', {}),
        (
            "[events]\nchunk_concurrency = 9\n[database]\npool_size = 12\n",
            {"INBOXD_DATABASE__POOL_SIZE": "x"},
        ),
        ('[worker]\nlease = "10s"\nheartbeat_interval = "2"\n', {}),
        ('[http]\nhost = "0.0.0.0"\nallow_remote = "perhaps"\n', {}),
        ('[types."a.b"]\nretention = "200d"\n[history]\nevents = "years"\n', {}),
        ('[dedup.sources.shop]\nwindw = "3d"\n', {}),
        ("[dedup.sources.shop]\nwindow = 3\n", {}),
        ('[events]\ntimeout = "2m"\n', {"INBOXD_DATABASE": "{"}),
        (
            '[events]\ntimeout = "2m"\nchunk_concurrency\n',
            {"INBOXD_EVENTS__CHUNK_CONCURRENCY": "9"},
        ),
    ],
)
def test_problem_that_only_follows_from_another_is_not_reported(
    written: Any, text: str, environ: dict[str, str]
) -> None:
    assert len(problems(written(text), environ)) == 1


def test_unreadable_source_hides_no_mistake_of_other_sources(written: Any, tmp_path: Path) -> None:
    environ = {
        "INBOXD_TYPES": "{",
        "INBOXD_TOPICS": "[",
        "INBOXD_HTTP__PORT": "x",
        "INBOXD_DATABASE__PASSWORD_FILE": str(tmp_path / "absent"),
    }
    found = problems(written('[log]\nlevel = "loud"\n'), environ)
    for word in ("INBOXD_TYPES is", "INBOXD_TOPICS is", "[http] port", "absent", "[log] level"):
        assert any(word in line for line in found), word
    assert len(found) == 5
    assert len(problems(written("log\n"), environ)) == 5


def test_valid_settings_are_read_beside_invalid_ones(written: Any) -> None:
    path = written(
        '[worker]\nlease = "1m"\nqueues = [1]\n[topics.a]\ncount = "x"\nage = "3s"\n[topics.b]\n'
        "total_concurrency = 3\n[dedup.sources.shop]\nwindow = 3\n"
    )
    settings = read(path, {}).settings
    assert settings.worker.lease == timedelta(minutes=1)
    assert settings.topics == {
        "a": TopicOverride(age="3s"),  # type: ignore[arg-type]
        "b": TopicOverride(total_concurrency=3),
    }
    assert settings.dedup.sources == {}
    known = {("worker", "lease"), ("topics", "a", "age"), ("topics", "b"), ("database",)}
    unknown = {("worker", "queues"), ("worker",), ("topics", "a"), ("topics", ANY, "count")}
    assert {key for key in known | unknown if settings.knows(*key)} == known
    assert settings.source_of("worker.lease") == str(path)
    assert settings.source_of("topics.a.count") == "default"


@pytest.mark.parametrize(
    "login",
    [
        *("u:ti@ptoe", "u:ti/ptoe", "u:ti#ptoe", "u:ti?ptoe", "u:12/tiptoe", "u:ti[ptoe"),
        *("u:#tiptoe", "u:12#tiptoe", "u:?tiptoe", "u:12?tiptoe"),
    ],
)
def test_unencoded_password_is_reported_and_not_shown(login: str) -> None:
    (problem,) = problems(None, {"INBOXD_DATABASE__DSN": f"postgresql://{login}@db/shop"})
    assert "percent-encode" in problem
    assert "@ is %40" in problem
    assert "ptoe" not in problem


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql:///db?user=x@y&host=/tmp",
        "postgresql://h?sslmode=require&user=x@y",
        "postgresql://u:p%40%2F:x@[::1]:5432,h:5433/db",
        "postgres://u@%2Frun%2Fpg/db",
    ],
)
def test_a_dsn_may_be_written_in_many_ways(dsn: str) -> None:
    assert load(None, {"INBOXD_DATABASE__DSN": dsn}).database.dsn.get_secret_value() == dsn


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_loopback_needs_no_permission(host: str) -> None:
    assert load(None, {"INBOXD_HTTP__HOST": host}).http.host == host


def test_remote_host_needs_permission() -> None:
    environ = {"INBOXD_HTTP__HOST": "0.0.0.0", "INBOXD_HTTP__ALLOW_REMOTE": "true"}  # noqa: S104
    assert load(None, environ).http.allow_remote


def test_missing_or_unreadable_file_is_named(tmp_path: Path) -> None:
    assert str(tmp_path / "no.toml") in problems(tmp_path / "no.toml")[0]
    (tmp_path / "latin.toml").write_bytes(b"\xff\xfe")
    assert "UTF-8" in problems(tmp_path / "latin.toml")[0]
    environ = {"INBOXD_DATABASE__PASSWORD_FILE": str(tmp_path / "absent")}
    assert str(tmp_path / "absent") in problems(None, environ)[0]


def test_malformed_table_in_environment_is_named() -> None:
    assert "INBOXD_TYPES is not valid JSON" in problems(None, {"INBOXD_TYPES": "{"})[0]
