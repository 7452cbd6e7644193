"""The pages are right: code runs, diagrams match the code, links have targets."""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from inboxd import Handlers
from inboxd.embedded import Server
from inboxd.model.lifecycle import TRANSITIONS, Status
from inboxd.testing import run_command, run_event
from tests.support import Database, ExternalServer
from tests.support.types import StrictTypes, assert_accepted

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("examples/**/*.md"),
]


def block(page: str, language: str, *, below: str = "") -> str:
    """The first code block of a language, below a heading."""
    text = (ROOT / page).read_text().partition(below)[2] if below else (ROOT / page).read_text()
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert found, f"{page} has no code block in {language}"
    return found[1]


BATCHES, WORKFLOWS = "docs/batches.md", "\n## Workflows\n"


NOT_RUN = [
    "tests/store/test_wakeups.py::test_no_row_is_left_behind_for_long",
    "tests/store/test_wakeups.py::test_no_such_thing",
    "tests/store/test_wakeups.py::_produce",
    "tests/store/test_no_such_file.py",
    "tests/faults/storm.py",
]


@pytest.mark.long
def test_promises_name_tests_that_ci_runs() -> None:
    """Files that exist are not enough: soaks and helpers are refused."""
    page = (ROOT / "docs/contributing/promises.md").read_text()
    promised = re.findall(r"^- `(tests/.+)`$", page, re.MULTILINE)
    assert len(promised) > 20
    stages = tomllib.loads((ROOT / ".ci/gate.toml").read_text())["stage"]
    runs = [stage["make"] for stage in stages]
    assert ["test"] in runs
    assert ["test-workers"] in runs
    # Long tests run in parts: folders, those of brokers and of benchmarks, and all others.
    long = [run[2] for run in runs if run[:2] == ["test-long", "LONG=long and not soak"]]
    *parts, rest = [run.removeprefix("TESTS=").split() for run in long]
    assert ["test-brokers", "QUICK=not soak"] in runs
    brokers = re.search(r"(?m)^BROKERS := (.+)$", (ROOT / "Makefile").read_text())
    assert brokers
    elsewhere = {"tests/benchmarks", *brokers[1].split(), *chain(*parts)}
    assert {*rest} == {"examples", "tests", *(f"--ignore={each}" for each in elsewhere)}
    assert ["test-plans", "POSTGRES=/usr/lib/postgresql/15/bin"] in runs
    assert unknown_to_ci([*promised, *NOT_RUN]) == NOT_RUN


def unknown_to_ci(names: list[str]) -> list[str]:
    """The names, `file` or `file::test`, that no run of CI collects."""
    files = {name.partition("::")[0] for name in names}
    collect = ["-m", "pytest", "--collect-only", "-q", "-m", "not soak", "-p", "no:xdist"]
    ran = subprocess.run(
        [sys.executable, *collect, *sorted(file for file in files if (ROOT / file).is_file())],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    tests = {line.partition("[")[0] for line in ran.stdout.splitlines() if "::" in line}
    known = tests | {test.partition("::")[0] for test in tests}
    return [name for name in names if name not in known]


def test_the_plugin_page_passes_strict_types(tmp_path: Path, strict: StrictTypes) -> None:
    page = (ROOT / "docs/plugins.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    plugin = tmp_path / "plugin.py"
    plugin.write_text("\n".join(blocks))
    assert_accepted(strict(plugin))
    spec = importlib.util.spec_from_file_location("plugin_of_the_page", plugin)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.handlers.build().problems


def test_the_page_of_tests_is_a_suite_that_passes(
    tmp_path: Path, strict: StrictTypes, server: Server | ExternalServer
) -> None:
    page = (ROOT / "docs/testing.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    suite = tmp_path / "test_shop.py"
    suite.write_text("\n".join(blocks))
    assert_accepted(strict(suite))
    (tmp_path / "schema.sql").write_text("create table orders (id int)")
    options = ["-q", "-p", "no:cacheprovider", f"--inboxd-dsn={server.dsn()}"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(suite)],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "5 passed" in ran.stdout, ran.stdout + ran.stderr


@pytest.mark.parametrize("below", ["", WORKFLOWS], ids=["batches", "workflows"])
def test_the_plugin_of_a_page_passes_strict_types(
    below: str, tmp_path: Path, strict: StrictTypes
) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(block(BATCHES, "python", below=below))
    assert_accepted(strict(plugin))


@pytest.mark.anyio
async def test_page_of_batches_makes_a_batch(tmp_path: Path) -> None:
    found = await run_event(
        _handlers_of("", tmp_path),
        "activity.created",
        {"activity_id": 7, "students": [1, 2]},
    )
    (batch,) = found.batches
    assert [sent.payload["student_id"] for sent in batch.commands] == [1, 2]
    assert [sent.payload["whom"] for sent in (*batch.then, *batch.otherwise)] == [
        "teacher",
        "staff",
    ]


@pytest.mark.anyio
async def test_page_of_workflows_makes_a_workflow(tmp_path: Path) -> None:
    handlers = _handlers_of(WORKFLOWS, tmp_path)
    found = await run_event(handlers, "institution.created", {"institution_id": 7})
    (workflow,) = found.workflows
    assert {name: dict(step.after) for name, step in workflow.steps.items()} == {
        "basic": {},
        "users": {"basic": "succeeded"},
        "classes": {"basic": "succeeded", "users": "succeeded"},
        "alert": {"users": "failed"},
        "letters": {"users": "succeeded"},
    }
    results: dict[str, object] = {"basic": {"classes": []}}
    seeded = await run_command(
        handlers, "school.seed_users", {"institution_id": 7}, results=results
    )
    assert seeded.error is None


@pytest.mark.anyio
@pytest.mark.parametrize("below", ["", WORKFLOWS], ids=["batches", "workflows"])
async def test_the_sql_of_a_page_runs(database: Database, below: str) -> None:
    sql = block(BATCHES, "sql", below=below)
    async with database.connect() as connection:
        for type_ in (
            "school.send_email",
            "school.tell",
            *re.findall(r'"type": "([a-z._]+)"', sql),
        ):
            await connection.execute(
                "INSERT INTO inboxd.declared_types (kind, type, queue) "
                "VALUES ('command', $1, 'default') ON CONFLICT DO NOTHING",
                type_,
            )
        await connection.execute(sql)
        status = await connection.fetchval("SELECT status FROM inboxd.batches")
    assert status == "pending"


def _handlers_of(below: str, folder: Path) -> Handlers:
    """The handlers of the plugin on the page of batches, imported as its own module."""
    file = folder / f"{'workflows' if below else 'batches'}_page.py"
    file.write_text(block(BATCHES, "python", below=below))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # pydantic looks annotations up there
    spec.loader.exec_module(module)
    handlers = module.handlers
    assert isinstance(handlers, Handlers)
    return handlers


def test_the_plugin_in_the_readme_has_20_lines_and_passes_strict_types(
    tmp_path: Path, strict: StrictTypes
) -> None:
    code = block("README.md", "python")
    assert len([line for line in code.splitlines() if line]) <= 20
    assert max(map(len, code.splitlines())) <= 100

    plugin = tmp_path / "plugin.py"
    plugin.write_text(code)
    assert_accepted(strict(plugin))


@pytest.mark.anyio
async def test_plugin_in_the_readme_handles_the_event_of_its_sql(
    database: Database,
) -> None:
    readme = (ROOT / "README.md").read_text()
    async with database.connect() as connection:
        for sql in re.findall(r"^```sql\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE):
            await connection.execute(sql)
        [event] = await connection.fetch("SELECT type, payload FROM inboxd.events")

    result = await run_event(plugin_of_the_readme(), event["type"], event["payload"].encode())

    assert [(sent.type, sent.payload) for sent in result.commands] == [
        ("shop.ship_order", {"order_id": 7})
    ]


def plugin_of_the_readme() -> Handlers:
    """Run the code of the README as a module, and return its `handlers`."""
    names: dict[str, object] = {"__name__": "readme_plugin"}
    exec(block("README.md", "python"), names)  # noqa: S102 - code of our own page
    handlers = names["handlers"]
    assert isinstance(handlers, Handlers)
    return handlers


def test_the_state_diagram_shows_every_legal_move_and_no_other() -> None:
    drawn = re.findall(r"(\w+) --> (\w+):", block("docs/how-it-works.md", "mermaid"))
    ends = re.findall(r"(\w+) --> \[\*\]", block("docs/how-it-works.md", "mermaid"))

    assert len(drawn) == len(set(drawn))
    assert set(drawn) == {(old, new) for old, news in TRANSITIONS.items() for new in news}
    assert set(ends) == {status for status, news in TRANSITIONS.items() if not news}


def test_the_glossary_explains_every_status() -> None:
    statuses = (ROOT / "docs/contributing/glossary.md").read_text().partition("## Statuses")[2]

    assert re.findall(r"^\| `(\w+)` \|", statuses, re.MULTILINE) == list(Status)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{page.name}: {target} does not exist"
        assert not anchor or anchor in anchors(file), f"{page.name}: {target} has no such heading"


def anchors(page: Path) -> set[str]:
    """The headings in the form of link targets."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }
