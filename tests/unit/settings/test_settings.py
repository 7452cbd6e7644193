"""Settings: sources and their order, problems, secrets, and the example that must not drift."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from inboxd.errors import SettingsError
from inboxd.settings import (
    ANY,
    Database,
    Queue,
    ScheduleOverride,
    Settings,
    TopicOverride,
    TypeOverride,
    describe,
    load,
    read,
    redact,
    reloadable,
    taken_over,
)
from inboxd.settings.contradictions import contradictions
from inboxd.settings.values import format_size, parse_size

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "config.example.toml"
DOCS = ROOT / "docs" / "settings.md"
# Sections that the operator names, with the name that the example uses.
NAMED: dict[str, tuple[str, type[BaseModel]]] = {
    "topics": ("rewards", TopicOverride),
    "queues": ("email", Queue),
    "types": ("user.status_updated", TypeOverride),
    "schedules": ("school.nightly_report", ScheduleOverride),
}


def fields() -> Iterator[tuple[str, str, Any]]:
    """Yield (section, key, field) of every setting."""
    for section, outer in Settings.model_fields.items():
        model = NAMED[section][1] if section in NAMED else outer.annotation
        assert isinstance(model, type)
        assert issubclass(model, BaseModel)
        for name, field in model.model_fields.items():
            yield section, field.alias or name, field


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Return a function that writes TOML into a file and gives its path."""

    def write(text: str) -> Path:
        path = tmp_path / "inboxd.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def problems(path: Path | None, environ: Mapping[str, str] | None = None) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(path, environ or {}, docker_secrets=Path("/nonexistent"))
    return str(caught.value).splitlines()


# --- the example and the page ---------------------------------------------------------------


def uncommented() -> dict[str, Any]:
    # Prose has a space behind its "#", a setting without a default has none.
    return tomllib.loads(re.sub(r"(?m)^#(?=\S)", "", EXAMPLE.read_text(encoding="utf-8")))


def test_example_as_it_stands_is_the_defaults() -> None:
    assert load(EXAMPLE, {}).model_dump() == load(None, {}).model_dump()


def test_example_shows_every_setting_and_no_other() -> None:
    shown = uncommented()
    for section, (name, _) in NAMED.items():
        assert list(shown[section]) == [name]
        shown[section] = shown[section][name]
    assert {(section, key) for section, keys in shown.items() for key in keys} == {
        (section, key) for section, key, _ in fields()
    }


def test_example_is_valid_with_every_line_active() -> None:
    assert [*contradictions(Settings(**uncommented()))] == []


def test_the_example_changes_nothing_until_it_is_changed() -> None:
    active = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))
    assert not any(active.values()), "every setting is commented out"


def test_what_is_no_default_is_marked_as_an_example() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    shown, defaults = uncommented(), Settings().model_dump(mode="json", by_alias=True)
    for section, key, field in fields():
        if section in NAMED or (section, key) == ("dedup", "sources"):
            continue
        (line,) = re.findall(rf"(?ms)^\[{section}\]$.*?^(#{key} = .*?)$", text)
        constant = field.default is not None and field.default_factory is None
        assert line.endswith("  # an example") != constant, key
        if constant:
            own = Settings.model_validate({section: {key: shown[section][key]}})
            assert (
                own.model_dump(mode="json", by_alias=True)[section][key] == defaults[section][key]
            )


@pytest.mark.parametrize("page", [EXAMPLE, DOCS], ids=["example", "docs"])
def test_page_says_why_of_every_setting(page: Path) -> None:
    text = " ".join(page.read_text(encoding="utf-8").replace("\n# ", " ").split())
    for section, key, field in fields():
        assert field.description, f"{section}.{key} has no description"
        assert field.description in text, f"{page.name} lacks {section}.{key}"


def test_docs_show_every_default() -> None:
    text = DOCS.read_text(encoding="utf-8")
    named = False
    for line in EXAMPLE.read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"#([a-z_]+) = (.+?)", line)
        if re.fullmatch(r"#?\[.+\]", line):
            named = "." in line
        elif match and not named and not line.endswith("# an example"):
            assert f"| `{match[1]}` | `{match[2]}` |" in text


# --- sources --------------------------------------------------------------------------------


def test_environment_beats_secret_files_beats_toml(written: Any, tmp_path: Path) -> None:
    (tmp_path / "database_password").write_text("from systemd\n", encoding="utf-8")
    path = written('[database]\npassword = "from toml"\npool_size = 7\n[worker]\nname = "w"\n')
    credentials = {"CREDENTIALS_DIRECTORY": str(tmp_path)}

    def password(environ: dict[str, str]) -> str:
        secret = load(path, environ, docker_secrets=tmp_path / "none").database.password
        assert secret is not None
        return secret.get_secret_value()

    assert password({}) == "from toml"
    assert password(credentials) == "from systemd"
    assert password(credentials | {"INBOXD_DATABASE__PASSWORD": "from env"}) == "from env"
    assert load(path, {"INBOXD_DATABASE__POOL_SIZE": "9"}).database.pool_size == 9


def test_password_file_beats_found_secrets(written: Any, tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("named\n", encoding="utf-8")
    (tmp_path / "inboxd_database_password").write_text("docker", encoding="utf-8")
    path = written(f'[database]\npassword_file = "{tmp_path}/pw"\n')
    database = load(path, {}, docker_secrets=tmp_path).database
    assert database.password is not None
    assert database.password.get_secret_value() == "named"


def test_docker_secrets_give_password_and_dsn(tmp_path: Path) -> None:
    (tmp_path / "inboxd_database_password").write_text("pw", encoding="utf-8")
    (tmp_path / "inboxd_database_dsn").write_text("postgresql://a@b/c\n", encoding="utf-8")
    settings = load(None, {}, docker_secrets=tmp_path)
    assert settings.database.password is not None
    assert settings.database.dsn.get_secret_value() == "postgresql://a@b/c"
    assert settings.source_of("database.dsn") == str(tmp_path / "inboxd_database_dsn")


def test_environment_has_lists_tables_and_named_sections() -> None:
    settings = load(
        None,
        {
            "INBOXD_WORKER__QUEUES": "email, reports",
            "INBOXD_QUEUES__EMAIL__CONCURRENCY": "4",
            "INBOXD_TYPES": '{"user.created": {"timeout": "3s", "retry": {"attempts": 2}}}',
            "INBOXD_HTTP__ENABLED": "false",
            "INBOXD_CONFIG": "no section, no setting",
        },
    )
    assert settings.worker.queues == ("email", "reports")
    assert settings.queues == {"email": Queue(concurrency=4)}
    assert settings.types["user.created"].timeout == timedelta(seconds=3)
    assert settings.types["user.created"].retry == {"attempts": 2}
    assert not settings.http.enabled


@pytest.mark.parametrize(
    ("text", "queues"),
    [
        ('["email", "reports"]', ("email", "reports")),
        (' [ "email" ] ', ("email",)),
        ("email, reports", ("email", "reports")),
        ("email", ("email",)),
        ("[]", ()),
        ("", ()),
    ],
)
def test_lists_in_the_environment_are_json_or_separated_by_commas(
    text: str, queues: tuple[str, ...]
) -> None:
    assert load(None, {"INBOXD_WORKER__QUEUES": text}).worker.queues == queues


@pytest.mark.parametrize("text", ['["email", ', "[email]"])
def test_a_list_that_is_neither_says_what_it_may_be(text: str) -> None:
    (problem,) = problems(None, {"INBOXD_WORKER__QUEUES": text})
    assert problem.startswith("environment: [worker] queues: a list is")
    assert '["email", "reports"]' in problem


@pytest.mark.parametrize(
    ("text", "expect"),
    [("g.a, g.b", ("g.a", "g.b")), ("g.a", ("g.a",)), ('["g.a"]', ("g.a",)), ("3", 3), ("", None)],
)
def test_what_is_expected_is_a_list_or_a_number(text: str, expect: object) -> None:
    settings = load(None, {"INBOXD_TOPICS__GROUP__EXPECT": text})
    assert settings.topics == {"group": TopicOverride(expect=expect)}  # type: ignore[arg-type]


def test_an_empty_text_takes_away_what_a_weaker_source_says(written: Any) -> None:
    path = written('[topics.group]\ncount = 3\nage = ""\n')
    group = load(path, {"INBOXD_TOPICS__GROUP__COUNT": ""}).topics["group"]
    assert (group.count, group.age) == (None, None)
    assert group.model_fields_set == {"count", "age"}


def test_what_is_taken_away_is_told(written: Any) -> None:
    before, after = load(None, {}), load(written('[topics.group]\ncron = ""\n'), {})
    assert reloadable(before, after).restart == ("topics.group.cron",)
    shown = {key: value for key, value, _ in describe(after)}
    assert (shown["topics.group.cron"], shown["topics.group.age"]) == ("", "-")


def test_settings_alone_read_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INBOXD_WORKER__NAME", "surprise")
    assert Settings().worker.name != "surprise"


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load(None, {}).worker.name = "other"  # type: ignore[misc]


# --- problems -------------------------------------------------------------------------------


def test_all_problems_at_once_each_with_its_place(written: Any) -> None:
    path = written(
        '[database]\ndns = "x"\npool_size = "many"\n[worker]\nlease = 30\n[databse]\nx = 1\n'
        '[queues.email]\nconcurency = 3\n[types."a.b"]\nretri = {}\n'
    )
    found = problems(path, {"INBOXD_HTTP__PORT": "70000", "INBOXD_WORKR__NAME": "w"})
    for place, *words in (
        (path, "[database]", "'dns'", "did you mean 'dsn'?"),
        (path, "[database] pool_size", "integer", "'many'"),
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


def test_all_contradictions_are_told_at_once(written: Any) -> None:
    path = written(
        '[events]\ntimeout = "60s"\nchunk_concurrency = 5\n[database]\ntransaction_pooler = true\n'
        '[types."a.b"]\nretention = "1h"\n[types."c.d"]\nretention = "1m"\n'
    )
    found = problems(path)
    assert len(found) == 5
    for word in ("events.timeout", "pool_size (5)", "wakeups.mode", "types.a.b", "types.c.d"):
        assert any(word in line for line in found), word


def test_contradictions_are_told_beside_wrong_values_each_with_its_place(written: Any) -> None:
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
    assert len(found) == 15, "history.events is wrong: nothing is longer than it"


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
def test_what_only_follows_from_another_mistake_is_not_told(
    written: Any, text: str, environ: dict[str, str]
) -> None:
    assert len(problems(written(text), environ)) == 1


def test_a_source_that_cannot_be_read_hides_no_mistake_of_the_others(
    written: Any, tmp_path: Path
) -> None:
    environ = {
        "INBOXD_TYPES": "{",
        "INBOXD_TOPICS": "[",
        "INBOXD_HTTP__PORT": "x",
        "INBOXD_DATABASE__PASSWORD_FILE": str(tmp_path / "absent"),
    }
    found = problems(written('[log]\nlevel = "loud"\n'), environ)
    for word in ("types", "topics", "[http] port", "absent", "[log] level"):
        assert any(word in line for line in found), word
    assert len(found) == 5
    assert len(problems(written("log\n"), environ)) == 5


def test_what_is_right_can_be_read_beside_what_is_wrong(written: Any) -> None:
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
def test_a_password_that_is_not_encoded_is_told_of_and_not_shown(login: str) -> None:
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


def test_remote_host_by_permission() -> None:
    environ = {"INBOXD_HTTP__HOST": "0.0.0.0", "INBOXD_HTTP__ALLOW_REMOTE": "true"}  # noqa: S104
    assert load(None, environ).http.allow_remote


def test_missing_or_unreadable_file_is_named(tmp_path: Path) -> None:
    assert str(tmp_path / "no.toml") in problems(tmp_path / "no.toml")[0]
    (tmp_path / "latin.toml").write_bytes(b"\xff\xfe")
    assert "UTF-8" in problems(tmp_path / "latin.toml")[0]
    environ = {"INBOXD_DATABASE__PASSWORD_FILE": str(tmp_path / "absent")}
    assert str(tmp_path / "absent") in problems(None, environ)[0]


def test_malformed_table_in_environment_is_named() -> None:
    assert "types" in problems(None, {"INBOXD_TYPES": "{"})[0]


# --- secrets --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dsn", ["mysql://u:hunter2@h/x", "postgresql://u:hunter2@h/x", "postgresql:/u:hunter2@h"]
)
def test_no_secret_in_any_message(written: Any, dsn: str) -> None:
    path = written(f'[database]\ndsn = "{dsn}"\npasword = "hunter2"\npassword = ["hunter2"]\n')
    with pytest.raises(SettingsError) as caught:
        load(path, {})
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_no_secret_in_repr_or_description() -> None:
    settings = load(
        None,
        {
            "INBOXD_DATABASE__DSN": "postgresql://u:hunter2@h1,h2/db?password=hunter2&sslmode=on",
            "INBOXD_DATABASE__PASSWORD": "hunter2",
        },
    )
    shown = {key: (value, source) for key, value, source in describe(settings)}
    assert "hunter2" not in f"{settings!r} {settings} {shown}"
    assert shown["database.dsn"] == (
        "postgresql://u:********@h1,h2/db?password=********&sslmode=on",
        "environment",
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no secret here", "no secret here"),
        ("postgresql://u:p@h/d", "postgresql://u:********@h/d"),
        ("postgresql://u:p@ss/w@h/d", "postgresql://u:********@h/d"),
        ("postgresql://u@h:5432/d", "postgresql://u@h:5432/d"),
        ("host=h password=p user=u", "host=h password=******** user=u"),
    ],
)
def test_redact(text: str, shown: str) -> None:
    assert redact(text) == shown


# --- showing and reloading ------------------------------------------------------------------


def test_description_names_each_value_with_its_source(written: Any) -> None:
    path = written('[worker]\nlease = "90s"\n[types."a.b"]\nretry = { attempts = 2 }\n')
    shown = {key: (value, source) for key, value, source in describe(load(path, {}))}
    assert shown["worker.lease"] == ("1m30s", str(path))
    assert shown["types.a.b.retry.attempts"] == ("2", str(path))
    assert shown["events.page_bytes"] == ("32MiB", "default")
    assert shown["database.schema"] == ("inboxd", "default")
    assert shown["worker.queues"] == ("(all)", "default")


def test_reload_applies_limits_and_names_the_rest() -> None:
    old = load(None, {"INBOXD_QUEUES__EMAIL__CONCURRENCY": "4"})
    new = load(
        None,
        {
            "INBOXD_LOG__LEVEL": "debug",
            "INBOXD_COMMANDS__CONCURRENCY": "7",
            "INBOXD_QUEUES__REPORTS__CONCURRENCY": "1",
            "INBOXD_DATABASE__PASSWORD": "new",
            "INBOXD_WORKER__LEASE": "60s",
        },
    )
    changes = reloadable(old, new)
    queues = {key for key in changes.live if key.startswith("queues.")}
    assert {"queues.email.concurrency", "queues.reports.concurrency"} <= queues
    assert set(changes.live) - queues == {"log.level", "commands.concurrency"}
    assert set(changes.restart) == {"database.password", "worker.lease"}
    assert reloadable(old, old) == type(changes)((), ())
    now = taken_over(old, new)
    assert reloadable(now, new) == type(changes)((), changes.restart)
    assert reloadable(old, now) == type(changes)(changes.live, ())


@pytest.mark.parametrize("text", ["1B", "64KiB", "3MiB", "2GiB", "1025B"])
def test_size_is_written_as_it_is_read(text: str) -> None:
    assert format_size(parse_size(text)) == text


def test_sections_can_be_made_in_code() -> None:
    assert Database(schema="shop").schema_name == "shop"


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        ("0/s", "a rate of 0 lets nothing run"),
        ("-5/m", "a rate of -5 lets nothing run"),
        ("10", "10/s"),
        ("9999999/s", "is no limit"),
    ],
)
def test_a_rate_that_is_none_is_refused_by_name(written: Any, rate: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(written(f'[queues.email]\nrate = "{rate}"\n'), {})
    assert "[queues.email] rate: " in str(refused.value)
    assert said in str(refused.value)


def test_a_rate_is_written_as_it_is_read() -> None:
    settings = load(None, {"INBOXD_QUEUES__E__RATE": "600/m"})
    shown = {key: value for key, value, _ in describe(settings)}
    assert shown["queues.e.rate"] == "600/m"
