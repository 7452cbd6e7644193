"""A copy of an example has its tests too: they need only pytest, inboxd and its embedded server."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted(
    file.parent for file in Path(__file__).parents[2].glob("examples/*/pyproject.toml")
)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_examples_own_tests_import_nothing_of_this_projects(example: Path) -> None:
    tests = list(example.glob("tests/test_*.py"))
    assert tests
    allowed = {*sys.stdlib_module_names, "pytest", example.name}
    for test in tests:
        trees = ast.walk(ast.parse(test.read_text()))
        imported = {
            name
            for node in trees
            for name in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
        }
        inside = {name for name in imported if name.partition(".")[0] not in allowed}
        assert inside <= {"inboxd", "inboxd.testing"}


def test_the_schools_copy_of_the_demos_folder_is_identical() -> None:
    """The school's demo runs from its wheel alone, which does not contain `stage`."""
    stage, school = (
        next(each for each in EXAMPLES if each.name == name) for name in ("stage", "school")
    )
    mine = (school / "school/stage/folder.py").read_text()
    assert mine == (stage / "stage/folder.py").read_text()


@pytest.mark.long  # they also run in place
@pytest.mark.timeout(300)
def test_a_copy_passes_its_own_tests(tmp_path: Path) -> None:
    for example in EXAMPLES:
        shutil.copytree(example, tmp_path / example.name)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " passed" in ran.stdout
