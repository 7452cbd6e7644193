"""The wheel, built and installed elsewhere: all that the daemon and the demo need is in it.

It is installed into a virtual environment of its own, which borrows only the dependencies of this
one: nothing there leads to the checkout. Nothing is downloaded.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from inboxd.embedded import Server
from tests.support import Database, ExternalServer, create, drop, eventually
from tests.support.plugins import install
from tests.support.ports import held_port

ROOT = Path(__file__).parents[2]
SCHOOL = ROOT / "examples/school"
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
    """A folder with the wheels of this checkout and of its school."""
    folder = tmp_path_factory.mktemp("wheels")
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check"]
    _run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder, ROOT, SCHOOL)
    return folder


@pytest.fixture(scope="module")
def wheel(wheels: Path) -> Path:
    """The wheel of this checkout."""
    (built,) = wheels.glob("inboxd-*.whl")
    return built


@pytest.fixture(scope="module")
def elsewhere(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheels in it, and a plugin."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder, symlinks=True)
    into = ["--python", str(folder / "bin/python")]
    options = ["--no-deps", "--no-index", "--quiet", "--disable-pip-version-check"]
    _run(sys.executable, "-m", "pip", *into, "install", *options, *wheels.glob("*.whl"))
    (packages,) = folder.glob("lib/python*/site-packages")
    # The lines of a .pth file in there are not read, so the editable project is not found there.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install(packages, "shop", PLUGIN)
    return folder


@pytest.fixture
def empty(server: Server | ExternalServer) -> Iterator[Database]:
    """A database without anything."""
    fresh = create(server)
    yield fresh
    drop(server, fresh)


def _run(*command: str | Path, folder: Path | None = None, **more: str) -> str:
    """What it wrote; it must succeed."""
    ran = subprocess.run(
        command, cwd=folder, env=_environment(**more), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def _environment(**more: str) -> dict[str, str]:
    """That of this process without what leads Python or inboxd anywhere."""
    leads = ("INBOXD_", "PYTHON", "VIRTUAL_ENV")
    return {k: v for k, v in os.environ.items() if not k.startswith(leads)} | more


def test_it_has_every_file(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    code = {str(file.relative_to(ROOT)) for file in (ROOT / "inboxd").rglob("*") if file.is_file()}
    files = (ROOT / "migrations").rglob("*.sql")
    migrations = {f"inboxd/{file.relative_to(ROOT)}" for file in files}
    missing = {name for name in code if "__pycache__" not in name} | migrations
    assert missing - names == set()
    others = {name for name in names if not name.startswith("inboxd")}
    assert others == set(), "tests, examples and benchmarks are no part of it"


@pytest.mark.anyio
async def test_it_works_outside_the_checkout(
    elsewhere: Path, empty: Database, tmp_path: Path
) -> None:
    """Its help, a migration, the check, and a daemon that handles an event and its command."""
    inboxd_ = elsewhere / "bin/inboxd"
    where = "import inboxd.store.files; print(inboxd.__file__)"
    assert _run(elsewhere / "bin/python", "-c", where, folder=tmp_path).startswith(str(elsewhere))
    assert version("inboxd") in _run(inboxd_, "--version", folder=tmp_path)
    assert "--port" in _run(inboxd_, "dev", "--help", folder=tmp_path)
    with held_port() as held:
        known = {
            "INBOXD_DATABASE__DSN": empty.dsn,
            "INBOXD_WORKER__PLUGINS": "shop",
            "INBOXD_HTTP__PORT": str(held.getsockname()[1]),
        }
        assert "Done" in _run(inboxd_, "migrate", "--yes", folder=tmp_path, **known)
        await empty.execute("create table shipped (id integer)")
        _run(inboxd_, "check", folder=tmp_path, **known)
        log = tmp_path / "log"
        daemon = _start(inboxd_, log, held.fileno(), _environment(**known))
        try:
            await empty.execute("select inboxd.emit_event('shop.paid', '{\"order\": 7}')")

            async def shipped() -> bool:
                assert daemon.poll() is None, log.read_text()
                return bool(await empty.fetchval("select exists (select from shipped)"))

            await eventually(shipped)
            assert [row["id"] for row in await empty.fetch("select id from shipped")] == [7]
            daemon.terminate()
            assert daemon.wait(30) == 0, log.read_text()
        finally:
            daemon.kill()
            daemon.wait()


@pytest.mark.timeout(100)
def test_the_demo_runs_outside_the_checkout(elsewhere: Path, tmp_path: Path) -> None:
    """With the wheel's inboxd and the school's own wheel; PostgreSQL is the demo's."""
    for name in ("demo.py", "config.toml"):
        shutil.copy(SCHOOL / name, tmp_path)
    python = elsewhere / "bin/python"
    where = _run(python, "-c", "import school; print(school.__file__)", folder=tmp_path)
    assert where.startswith(str(elsewhere))
    options = ["--quick", "--timeout", "60"]
    told = _run(python, "demo.py", *options, folder=tmp_path, TMPDIR=str(tmp_path))
    assert "Every student got exactly the e-mails that were due: 60" in told


def _start(program: Path, log: Path, port: int, known: dict[str, str]) -> subprocess.Popen[bytes]:
    """A daemon that inherits what holds its port."""
    with log.open("wb") as output:
        return subprocess.Popen(
            [program, "run"],
            cwd=log.parent,
            env=known,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[port],
        )
