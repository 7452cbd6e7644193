"""The map of the code is right: files exist, the code takes the journeys, citations exist."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from inboxd.store.columns import written_out

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "inboxd"
MAP, GUIDE = ROOT / "docs/contributing/architecture.md", ROOT / "CONTRIBUTING.md"

# Questions that the map answers; checked by `test_map_shows_where_each_thing_is`.
ASKED = {
    *("claimed", "run", "settled", "retried", "requeued", "reaped", "led", "woken", "ordered"),
    *("limited", "deduplicated", "partitioned", "replayed", "traced"),
}
JOURNEYS = {
    *("Woken", "An event of a single topic", "An event of a sequential topic"),
    *("An event of a batch topic", "A command", "A command with an ordering key"),
    *("A command of a queue with limits", "A member of a batch", "A replay"),
    *("A webhook that goes out", "A request to a target", "An event that is published"),
    "A message that comes in",
}
# The largest number of files of a journey.
LONGEST = 12

_PATH = re.compile(r"`([\w.*-]+(?:/[\w.*-]+)*(?:/|\.(?:py|sql|md|toml|txt|yaml|example)))`")
_STEP = re.compile(r"^\d+\. `(?P<file>[^`]+)`: (?P<rest>.+)$", re.MULTILINE)


def find(name: str) -> list[Path]:
    """The files of a name, relative to the repository or to the package."""
    return [path for base in (ROOT, PACKAGE) for path in base.glob(name.rstrip("/"))]


def section(page: Path, heading: str) -> str:
    """The text below a heading, up to the next heading of its level."""
    level, _, _ = heading.partition(" ")
    return page.read_text().partition(f"{heading}\n")[2].partition(f"\n{level} ")[0]


# ---------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("page", [MAP, GUIDE], ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    named = _PATH.findall(page.read_text())
    assert len(named) > 10
    assert [name for name in named if not find(name)] == []


def test_commands_and_names_of_the_guide_exist() -> None:
    guide, makefile = GUIDE.read_text(), (ROOT / "Makefile").read_text()
    run = set(re.findall(r"`(?:\w+=\w+ )?make ([\w-]+)", guide))
    assert {"setup", "check", "test"} <= run <= set(re.findall(r"(?m)^([\w-]+):", makefile))
    code = "\n".join(file.read_text() for file in PACKAGE.rglob("*.py"))
    names = re.findall(r"`([A-Za-z]\w+)`", guide)
    assert [name for name in names if not re.search(rf"\b{name}\b", code)] == []


def tree() -> Iterator[tuple[str, str]]:
    """Each path of the map's tree, with its description."""
    block = section(MAP, "## The tree").split("```")[1].strip("\n")
    above: list[str] = []
    for line in block.splitlines():
        name, _, says = line.strip().partition(" ")
        above[(len(line) - len(line.lstrip())) // 2 :] = [name]
        yield "".join(above), says.strip()


def test_tree_describes_each_package() -> None:
    shown = dict(tree())
    assert [path for path in shown if not (ROOT / path).exists()] == []
    assert [path for path, says in shown.items() if not says] == []
    rooms = {f"inboxd/{file.parent.relative_to(PACKAGE)}/" for file in PACKAGE.rglob("__init__.py")}
    assert rooms - {"inboxd/./"} <= set(shown)


def test_layers_are_those_of_the_import_linter() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = settings["tool"]["importlinter"]["contracts"][0]
    wanted = [re.findall(r"\w+", line) for line in contract["layers"]]
    there = [[room for room in line if is_there(room)] for line in wanted]
    rows = re.findall(r"^\| ([\w, ]+) \|", section(MAP, "## The layers"), re.MULTILINE)[1:]
    shown = [row.split(", ") for row in rows]
    assert [sorted(line) for line in shown] == [sorted(line) for line in there if line]


def is_there(room: str) -> bool:
    """Whether a layer of the contract exists in the code."""
    return room != "__main__" and ((PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").exists())


# ------------------------------------------------------------------------------------- journeys


def journeys() -> dict[str, str]:
    """The headings of journeys, with their steps."""
    parts = section(MAP, "## The journeys").split("\n### ")[1:]
    return {title: steps for title, _, steps in (part.partition("\n") for part in parts)}


def test_the_map_has_every_journey() -> None:
    assert set(journeys()) == JOURNEYS


@pytest.mark.parametrize("title", sorted(JOURNEYS))
def test_steps_of_a_journey_are_linked_in_the_code(title: str) -> None:
    """Each file is linked to that of the previous step, or of an earlier step named by *from*.

    Two files are linked if one imports the other, or if one is Python and names the other, an SQL
    statement, or if both contain the word after *through*.
    """
    steps = [(step["file"], step["rest"]) for step in _STEP.finditer(journeys()[title])]
    files = [file for file, _ in steps]
    assert 5 <= len(files) <= LONGEST
    assert len(set(files)) == len(files)
    assert [file for file in files if not (path(file).is_file())] == []
    for (before, _), (file, rest) in pairwise(steps):
        named = re.search(r", from `([^`]+)`", rest)
        origin = named[1] if named else before
        assert origin in files[: files.index(file)], (
            f"{file} follows {origin}, which is a later step"
        )
        through = re.search(r", through `([^`]+)`", rest)
        assert are_linked(path(origin), path(file), through and through[1]), (
            f"{title}: {origin} and {file} are not linked"
        )


def test_each_file_of_a_journey_has_a_see_also() -> None:
    steps = {step["file"] for text in journeys().values() for step in _STEP.finditer(text)}
    files = [file for file in map(path, sorted(steps)) if file.suffix == ".py"]
    silent = [str(file.relative_to(PACKAGE)) for file in files if not seen_from(file)]
    assert silent == []


def path(name: str) -> Path:
    """The file of a step."""
    return ROOT / name if name.startswith("migrations/") else PACKAGE / name


def are_linked(one: Path, other: Path, through: str | None) -> bool:
    """Whether one imports or runs the other, or both contain `through`: see the test above."""
    if through is not None:
        texts = [written_out(file.read_text()) for file in (one, other)]
        return all(re.search(rf"\b{through}\b", text) for text in texts)
    return any(
        module(b) in imported(a) if b.suffix == ".py" else a.suffix == ".py" and runs(a, b)
        for a, b in ((one, other), (other, one))
    )


def module(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts)


@cache
def imported(file: Path) -> frozenset[str]:
    """All modules that a file imports."""
    found: set[str] = set()
    if file.suffix != ".py":
        return frozenset()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{each.name}" for each in node.names)
    return frozenset(found)


def runs(file: Path, statement: Path) -> bool:
    """Whether a Python file names a statement, also one for both tables: `f"lock_{table}"`."""
    text, name = file.read_text(), re.escape(statement.stem.replace("{table}", "events"))
    names = [name, *(re.sub(table, r"\\{\\w+\\}", name) for table in ("events", "commands"))]
    return any(re.search(rf"""["'/]{each}["']""", text) for each in names)


def test_unlinked_steps_are_found() -> None:
    claim, events = path("store/sql/events/claim_events.sql"), path("store/events.py")
    assert are_linked(events, claim, None)
    assert are_linked(path("events/settling.py"), events, None)
    assert not are_linked(path("commands/run.py"), claim, None)
    assert not are_linked(path("events/page_run.py"), path("commands/run.py"), None)
    assert not are_linked(events, claim, "no_such_name")


def test_map_shows_where_each_thing_is() -> None:
    rows = re.findall(r"^\| ([\w ]+) \| (.+) \|$", section(MAP, "## Where is it …?"), re.MULTILINE)
    places = {what: _PATH.findall(where) for what, where in rows}
    assert set(places) >= ASKED
    assert [what for what, files in places.items() if not files] == []


# ------------------------------------------------------------------------------- rooms' indexes


@pytest.mark.parametrize("room", ["engine", "store"])
def test_docstring_of_a_large_package_names_each_module(room: str) -> None:
    """Grouped by subject, so that readers find a module: add new modules to their group."""
    said = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text())) or ""
    modules = {file.stem for file in (PACKAGE / room).glob("*.py")} - {"__init__"}
    assert sorted(re.findall(r"`(\w+)`", said)) == sorted(modules)


# -------------------------------------------------------------------------------- *See:* lines


def seen_from(file: Path) -> list[str]:
    """The names in the *See:* line of a module's docstring."""
    said = ast.get_docstring(ast.parse(file.read_text())) or ""
    found = re.search(r"\bSee:(.*?)(?:\n\n|\Z)", said, re.DOTALL)
    return re.findall(r"`([\w./]+)`", found[1]) if found else []


def leads_somewhere(name: str, file: Path) -> bool:
    """Whether a file, a module or a name in a module exists, relative to a folder above `file`."""
    parts = re.sub(r"\.py$", "", name).replace("/", ".").split(".")
    for base in file.parents:
        if not base.is_relative_to(ROOT):
            break
        inner = base.joinpath(*parts[:-1])
        if (base / name).exists() or (inner / f"{parts[-1]}.py").is_file():
            return True
        if base.joinpath(*parts).is_dir() or (len(parts) > 1 and has(inner, parts[-1])):
            return True
    return False


def has(module: Path, name: str) -> bool:
    """Whether a module or a package defines a name."""
    for file in (module.with_suffix(".py"), module / "__init__.py"):
        if file.is_file() and re.search(
            rf"^(?:(?:async )?def|class) {name}\b", file.read_text(), re.MULTILINE
        ):
            return True
    return False


def test_every_see_also_exists() -> None:
    wrong = {
        str(file.relative_to(ROOT)): left
        for file in PACKAGE.rglob("*.py")
        if (left := [name for name in seen_from(file) if not leads_somewhere(name, file)])
    }
    assert wrong == {}


def test_missing_see_also_is_found() -> None:
    file = path("commands/run.py")
    good = ["settler", "sources/limited.py", "inboxd.store.commands.claim", "engine/lease.py"]
    assert [leads_somewhere(name, file) for name in good] == [True] * 4
    assert not any(leads_somewhere(name, file) for name in ("settlar", "store.commands.clam"))


# ------------------------------------------------------------------------------------ citations

_SOURCES = ("*.toml", "Makefile", "Dockerfile", "*.md", "deploy/*", ".ci/*")
_FOLDERS = ("inboxd", "migrations", "tests", "docs", "examples", "benchmarks")


def sources() -> Iterator[Path]:
    """All files that may cite a document, except this test."""
    for pattern in _SOURCES:
        yield from (file for file in ROOT.glob(pattern) if file.is_file())
    for folder in _FOLDERS:
        for kind in ("py", "sql", "md", "toml"):
            yield from (ROOT / folder).rglob(f"*.{kind}")


def text_of(file: Path) -> str:
    """The text of a file in one line: a citation may be split between two lines of a comment."""
    return re.sub(r"\n[\s#-]*", " ", file.read_text())


_NUMBERS = r"(\d+(?:(?:, | and | to )\d+)*)"
_CITATIONS = {
    words: re.compile(rf"\b(?:{words}) {_NUMBERS}\b")
    for words in ("ADRs?", "[Pp]romises?", "design,? sections?")
}
_REQUIREMENT = re.compile(r"\bR\d\.\d+\b")
_MIGRATION = re.compile(r"\b[Mm]igrations? (\d{4})\b")
_PAGE = re.compile(r"(?<![\w/])(?:docs|migrations)/[\w/-]+\.(?:md|sql)")


@cache
def known() -> tuple[dict[str, set[str]], set[str]]:
    """The existing numbers for each kind of citation, and the existing requirements."""

    def numbers(pattern: str, page: str) -> set[str]:
        return set(re.findall(pattern, (ROOT / page).read_text(), re.MULTILINE))

    decisions = {str(int(page.name[:4])) for page in ROOT.glob("docs/contributing/adr/[0-9]*.md")}
    promises = numbers(r"^## (\d+)\. ", "docs/contributing/promises.md")
    sections = numbers(r"^## (\d+)\. ", "docs/contributing/design.md")
    by_kind = dict(zip(_CITATIONS, (decisions, promises, sections), strict=True))
    return by_kind, numbers(r"^\| (R\d\.\d+) \|", "docs/contributing/requirements.md")


def dangling(text: str) -> list[str]:
    """The citations in a text that do not exist."""
    by_kind, requirements = known()
    found = [
        f"{kind} {number}"
        for kind, pattern in _CITATIONS.items()
        for cited in pattern.findall(text)
        for number in re.findall(r"\d+", cited)
        if number not in by_kind[kind]
    ]
    found += [each for each in _REQUIREMENT.findall(text) if each not in requirements]
    found += [each for each in _MIGRATION.findall(text) if not find(f"migrations/{each}_*.sql")]
    return found + [page for page in _PAGE.findall(text) if not (ROOT / page).is_file()]


def test_every_citation_exists() -> None:
    wrong = {
        str(file.relative_to(ROOT)): found
        for file in sources()
        if file != Path(__file__) and (found := dangling(text_of(file)))
    }
    assert wrong == {}


def test_missing_citation_is_found() -> None:
    assert dangling("see ADR 3, promise 2, design section 5, R0.25 and docs/why.md") == []
    numbered = "ADRs 3 and 99, promises 77 to 79, design, section 88, R9.99, migration 7777"
    assert len(dangling(f"{numbered}, docs/no/such.md")) == 7
