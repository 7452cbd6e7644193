"""Commands use the database of their folder's dev while it runs, and no other later."""

import json
import os
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from inboxd.cli.dev_place import HOME, VARIABLE, announced, join, require, running, surroundings
from inboxd.errors import DatabaseError
from inboxd.settings import load

MINE = "postgresql://postgres@127.0.0.1:30157/postgres"
OTHERS = "postgresql://postgres@127.0.0.1:25432/postgres"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    HOME.mkdir()
    for name, text in {
        "config.toml": f'[database]\ndsn = "{OTHERS}"\n',
        "other.toml": f'[database]\ndsn = "{OTHERS}"\n',
        "silent.toml": '[worker]\nname = "w"\n',
        "broken.toml": "[database\n",
    }.items():
        Path(name).write_text(text)
    return tmp_path


def _dsn(config: str | None, **environ: str) -> str | None:
    return surroundings(Path(config) if config else None, environ).get(VARIABLE)


def _announced(config: str | None = "config.toml") -> AbstractContextManager[None]:
    return announced(MINE, Path(config) if config else None)


@pytest.mark.usefixtures("folder")
def test_commands_find_dev_unless_settings_name_another_database() -> None:
    with _announced():
        assert running() == MINE
        assert _dsn("config.toml") == MINE, "as dev itself, whatever the file says"
        assert _dsn(None) == MINE
        assert _dsn("silent.toml") == MINE
        assert _dsn("other.toml") is None, "settings that name another database win"
        assert _dsn("broken.toml") is None
        assert _dsn("config.toml", **{VARIABLE: OTHERS}) == OTHERS
        assert _dsn("config.toml", **{f"{VARIABLE}_FILE": "dsn"}) is None


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "variable",
    [
        {"INBOXD_DATABASE": json.dumps({"dsn": OTHERS})},
        {"inboxd_database": json.dumps({"dsn": OTHERS})},
        {"INBOXD_DATABASE": "{"},
        {VARIABLE.lower(): OTHERS},
    ],
    ids=["json", "lower case json", "invalid json", "lower case"],
)
@pytest.mark.parametrize("config", [None, "config.toml", "silent.toml"])
def test_database_of_the_environment_counts_before_dev(
    config: str | None, variable: dict[str, str]
) -> None:
    with _announced():
        assert surroundings(Path(config) if config else None, variable) == variable
        assert _dsn(config, INBOXD_DATABASE='{"schema": "other"}') == MINE, "names no database"


@pytest.mark.usefixtures("folder")
def test_database_of_a_secret_file_counts_before_dev(tmp_path: Path) -> None:
    (tmp_path / "database_dsn").write_text(OTHERS)
    with _announced():
        assert _dsn(None, CREDENTIALS_DIRECTORY=str(tmp_path)) is None


def test_settings_of_another_folder_do_not_find_the_dev_of_the_current_folder(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other") / "silent.toml"
    other.write_text((folder / "silent.toml").read_text())
    (folder / "conf").mkdir()
    below = folder / "conf/silent.toml"
    below.write_text(other.read_text())
    with announced(MINE, None):
        assert _dsn(str(other)) is None
        assert _dsn("conf/silent.toml") == _dsn(str(below)) == MINE
    require(load(other, {}), other)
    with announced(MINE, other):
        assert _dsn(str(other)) == MINE, "dev was started with this file"


def test_commands_find_dev_beside_their_settings_file(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _announced():
        monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
        assert _dsn(str(folder / "config.toml")) == MINE
        assert _dsn(None) is None
        with pytest.raises(DatabaseError, match="does not run in"):
            running()


@pytest.mark.usefixtures("folder")
def test_commands_of_an_ended_dev_use_no_database() -> None:
    with _announced(None):
        pass
    assert _dsn("config.toml") is None
    with pytest.raises(DatabaseError, match=r"`inboxd dev` does not run in .*: start it there"):
        running()
    silent = load(Path("silent.toml"), {})
    with pytest.raises(DatabaseError, match="name no database, and `inboxd dev` does not run in"):
        require(silent, Path("silent.toml"))
    for named in (load(Path("config.toml"), {}), load(None, {VARIABLE: OTHERS})):
        require(named, Path("config.toml"))
    (HOME / "dev.json").unlink()
    require(silent, Path("silent.toml"))


def test_stopped_dev_of_the_settings_folder_refuses_commands_from_elsewhere(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _announced(None):
        pass
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    config = folder / "silent.toml"
    with pytest.raises(DatabaseError, match=f"`inboxd dev` does not run in {folder}: start it"):
        require(load(config, {}), config)
    require(load(None, {}), None)
    require(load(folder / "config.toml", {}), folder / "config.toml")


def test_dev_of_the_settings_counts_before_the_dev_of_the_current_folder(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, elsewhere = folder / "silent.toml", tmp_path_factory.mktemp("elsewhere")
    (elsewhere / HOME).mkdir()
    with ExitStack() as stack:
        of_settings = stack.enter_context(ExitStack())
        of_settings.enter_context(_announced("silent.toml"))
        monkeypatch.chdir(elsewhere)
        stack.enter_context(announced(OTHERS, None))
        assert _dsn(str(config)) == MINE
        assert _dsn(None) == OTHERS
        of_settings.close()
        assert _dsn(str(config)) is None, "the other dev's database is another project's"
        with pytest.raises(DatabaseError, match=f"does not run in {folder}: "):
            require(load(config, {}), config)


@pytest.mark.usefixtures("folder")
def test_file_of_another_user_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    with _announced():
        mine = os.geteuid()
        if mine != 0:
            monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
        else:
            os.chown(HOME / "dev.json", 12345, -1)
        assert _dsn("config.toml") is None


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "\0", json.dumps({"dsn": MINE})])
def test_unreadable_file_is_ignored(text: str) -> None:
    with _announced():
        (HOME / "dev.json").write_text(text)
        assert _dsn("config.toml") is None


@pytest.mark.usefixtures("folder")
def test_link_is_not_followed(tmp_path: Path) -> None:
    with _announced():
        (HOME / "dev.json").rename(tmp_path / "real.json")
        (HOME / "dev.json").symlink_to(tmp_path / "real.json")
        assert _dsn("config.toml") is None


@pytest.mark.usefixtures("folder")
def test_daemon_reloads_its_settings_with_the_database_of_dev(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delenv(VARIABLE)
    with _announced():
        join(Path("config.toml"))
        assert load(Path("config.toml")).database.dsn.get_secret_value() == MINE
