"""The README's commands, verbatim, with inboxd's wheel in an environment outside the checkout."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest

from tests.support import Database, eventually
from tests.support.environments import ROOT, Environment, build, make
from tests.support.waiting import patient

README = (ROOT / "README.md").read_text()
MOST = 10
WIDTH = 110
SCREEN = 45  # lines, about as many as a browser shows at once


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with inboxd's wheel."""
    folder = tmp_path_factory.mktemp("wheels")
    build(folder, ROOT)
    return folder


@pytest.fixture
def environment(wheels: Path, tmp_path: Path) -> Environment:
    """The environment of the README's first commands, with the dependencies but without inboxd."""
    return make(tmp_path / "venv", wheels, "dev", also=["pytest"])


def section(title: str) -> str:
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def shell(text: str) -> list[str]:
    """The commands of the only shell block, without remarks."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    [block] = [content for language, content in blocks if not language]
    return [line.partition("  #")[0].rstrip() for line in block.splitlines()]


@contextmanager
def running(
    environment: Environment, line: str, folder: Path, **more: str
) -> Iterator["tuple[subprocess.Popen[bytes], Path]"]:
    """Run a program in the environment, and give its output; it must end with 0 when terminated."""
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {line}"],
            cwd=folder,
            env={**environment.environ, **more},
            stdout=output,
            stderr=output,
        )
    try:
        yield process, log
        process.terminate()
        assert process.wait(patient(60)) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def test_no_line_is_wider_than_110_columns() -> None:
    wide = [line for line in README.splitlines() if len(line) > WIDTH]
    assert not wide, "break the line, or shorten the cell"


def test_first_screen_shows_what_it_is_the_make_targets_and_a_plugin() -> None:
    first, *others = README.partition("\n## ")[0].split("\n```")
    assert first.startswith("# inboxd\n\n**")
    blocks = ["```" + text for text in others[::2]]
    languages = [text.partition("\n")[0] for text in blocks]
    assert languages == ["```sh", "```python"]
    targets = re.findall(r"^make (\w+)", blocks[0], re.MULTILINE)
    assert targets == ["demo", "test"]
    assert README.partition("\n## ")[0].count("\n") <= SCREEN


@pytest.mark.long
@pytest.mark.anyio
async def test_ten_commands_lead_to_a_tested_plugin_and_a_handled_event(
    environment: Environment, tmp_path: Path
) -> None:
    commands = shell(section("Start"))
    assert len(commands) <= MOST
    first, second, *others = commands
    assert (first, second) == ("python3 -m venv venv", ". venv/bin/activate")
    *prepare, dev, emit, trace = others
    shop = tmp_path / "shop"
    for line in prepare:
        told = await anyio.to_thread.run_sync(
            environment.run, line, shop if shop.exists() else tmp_path
        )
        if line == "pytest":
            assert re.search(r"\b[1-9]\d* passed", told)
            assert "failed" not in told
    assert prepare[-1] == "pytest"
    where = await anyio.to_thread.run_sync(
        environment.run, "python -c 'import inboxd, shop; print(inboxd.__file__)'", tmp_path
    )
    assert where.startswith(str(environment.folder))

    with running(environment, dev, shop, INBOXD_HTTP__PORT="0") as (process, log):
        # Port 0: another test may use the default port of `dev`. Commands find the chosen port.
        async def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            return bool(re.search(r"\bready\b", log.read_text()))

        await eventually(is_ready)
        await anyio.to_thread.run_sync(lambda: environment.run(emit, shop))
        story = ""

        async def is_confirmed() -> bool:
            nonlocal story
            story = await anyio.to_thread.run_sync(lambda: environment.run(trace, shop))
            return bool(re.search(r"shop\.confirm_order.*succeeded", story))

        await eventually(is_confirmed)


@pytest.mark.anyio
async def test_plugin_by_hand_runs_by_copy_and_paste(
    environment: Environment, database: Database, tmp_path: Path
) -> None:
    """The README's files, shell commands, table and SQL."""
    first_screen = README.partition("\n## ")[0]
    text = first_screen + section("A producer") + section("By hand")
    files = dict(
        re.findall(r"`(shop/[\w/.]+)`:\n\n```\w+\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    )
    assert sorted(files) == ["shop/pyproject.toml", "shop/shop/plugin.py"]
    (tmp_path / "shop/shop").mkdir(parents=True)
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    known: Mapping[str, str] = {
        "INBOXD_DATABASE__DSN": database.dsn,
        "INBOXD_HTTP__PORT": "0",
    }
    install, export, *lines, run = shell(text)
    assert export.startswith("export INBOXD_DATABASE__DSN=")
    for line in (install, *lines):
        await anyio.to_thread.run_sync(partial(environment.run, line, tmp_path, **known))
    with running(environment, run, tmp_path, **known) as (process, log):
        async with database.connect() as connection:
            for sql in re.findall(r"^```sql\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
                await connection.execute(sql)

        async def is_shipped() -> bool:
            assert process.poll() is None, log.read_text()
            shipped = "SELECT paid AND shipped FROM orders WHERE id = 7"
            return bool(await database.fetchval(shipped))

        await eventually(is_shipped)
    done = await database.fetch("SELECT type, status, attempts FROM inboxd.commands_history")
    assert [tuple(row) for row in done] == [("shop.ship_order", "succeeded", 1)]
