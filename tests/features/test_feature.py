"""Features may be left out: the product without one of them imports, shows its help, and works."""

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import inboxd
from inboxd.features import FEATURES
from inboxd.store.files import migrations_folder
from tests.daemon.inbox import TABLES, Inbox
from tests.support import Database
from tests.support.worker import StartWorker

PACKAGE = Path(inboxd.__file__).parent

# Imports everything but the parts that need a framework's settings.
_IMPORT_ALL = """
import importlib, pkgutil, sys
import inboxd
for each in pkgutil.walk_packages(inboxd.__path__, "inboxd."):
    if not each.name.startswith("inboxd.contrib"):
        importlib.import_module(each.name)
print(inboxd.__file__)
"""


def remove(name: str, product: Path) -> None:
    """Copy the product, without this feature's folder and the lines that name it."""
    shutil.copytree(PACKAGE, product / "inboxd", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(migrations_folder(), product / "migrations")
    features = product / "inboxd/features"
    shutil.rmtree(features / name)
    lines = (features / "__init__.py").read_text().splitlines()
    left = [line for line in lines if not re.match(rf" +{name}\b", line)]
    assert len(left) == len(lines) - 2
    (features / "__init__.py").write_text("\n".join(left))


def test_name_of_a_feature_is_that_of_its_folder() -> None:
    folders = {file.parent.name for file in PACKAGE.glob("features/*/__init__.py")}
    assert {each.name for each in FEATURES} == folders
    for name in folders:
        assert importlib.import_module(f"inboxd.features.{name}").FEATURE in FEATURES


@pytest.mark.anyio
@pytest.mark.own_interpreter
@pytest.mark.parametrize("name", ["rehearsal", "uninstall"])
async def test_product_without_a_feature_works(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    database: Database,
    start_worker: StartWorker,
) -> None:
    product = tmp_path / "product"
    remove(name, product)
    monkeypatch.setenv("PYTHONPATH", str(product))
    monkeypatch.chdir(product)

    def python(*arguments: str) -> str:
        ran = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    assert python("-c", _IMPORT_ALL).startswith(str(product))
    gone = [each.run.__name__ for one in FEATURES if one.name == name for each in one.commands]
    shown = re.findall(r"(?m)^│ (\w+) ", python("-m", "inboxd", "--help"))
    assert "status" in shown
    assert gone
    assert set(gone).isdisjoint(shown)

    await database.execute(TABLES)
    await start_worker()
    inbox = Inbox(database)
    for kind in ("event", "command"):
        await inbox.succeeded(kind, await inbox.write(kind, "test.noop"))
