"""Sources of settings: their precedence, and their forms of lists and tables."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from inboxd.settings import (
    Queue,
    Settings,
    TopicOverride,
    describe,
    load,
    reloadable,
)
from tests.unit.settings.loaded import problems


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
def test_malformed_list_is_refused_with_its_forms(text: str) -> None:
    (problem,) = problems(None, {"INBOXD_WORKER__QUEUES": text})
    assert problem.startswith("environment: [worker] queues: a list is")
    assert '["email", "reports"]' in problem


@pytest.mark.parametrize(
    ("text", "expect"),
    [("g.a, g.b", ("g.a", "g.b")), ("g.a", ("g.a",)), ('["g.a"]', ("g.a",)), ("3", 3), ("", None)],
)
def test_expect_is_a_list_or_a_number(text: str, expect: object) -> None:
    settings = load(None, {"INBOXD_TOPICS__GROUP__EXPECT": text})
    assert settings.topics == {"group": TopicOverride(expect=expect)}  # type: ignore[arg-type]


def test_empty_text_removes_the_value_of_a_weaker_source(written: Any) -> None:
    path = written('[topics.group]\ncount = 3\nage = ""\n')
    group = load(path, {"INBOXD_TOPICS__GROUP__COUNT": ""}).topics["group"]
    assert (group.count, group.age) == (None, None)
    assert group.model_fields_set == {"count", "age"}


def test_removed_value_is_shown(written: Any) -> None:
    before, after = load(None, {}), load(written('[topics.group]\ncron = ""\n'), {})
    assert reloadable(before, after).restart == ("topics.group.cron",)
    shown = {key: value for key, value, _ in describe(after)}
    assert (shown["topics.group.cron"], shown["topics.group.age"]) == ("", "-")


def test_settings_made_in_code_read_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INBOXD_WORKER__NAME", "surprise")
    assert Settings().worker.name != "surprise"


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load(None, {}).worker.name = "other"  # type: ignore[misc]
