"""Plugins' migrations: folders of numbered SQL files, named by entry points.

An entry point of the group `inboxd.migrations` has the plugin's name, and the module path of a
folder on disk: `shop = "shop.migrations"`, with or without an `__init__.py`. It is located without
an import, so that a migration job does not need the handlers' dependencies. Promises that all
problems with the folders are raised as one PluginError, before anything runs.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from inboxd.errors import PluginError
from inboxd.store.migrations import FILE_NAME, Numbered

GROUP = "inboxd.migrations"

_TRANSACTION = re.compile(r"^-- transaction:(?P<how>.*)$", re.MULTILINE)
# A whole-line comment in which no quoted string or block comment can end.
_COMMENT = re.compile(r"""^[ \t]*--[^'"$*\n]*$""", re.MULTILINE)
_FROM_CLIENT = re.compile(r"\bFROM\s+STDIN\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PluginMigration(Numbered):
    """One numbered file of a plugin: plain SQL without placeholders."""

    @property
    def in_transaction(self) -> bool:
        """Whether it runs in one transaction with its record; not with `-- transaction: none`."""
        return _TRANSACTION.search(self.text) is None


@dataclass(frozen=True, slots=True)
class MigrationFolder:
    """A plugin's migrations. distribution: its name and version."""

    plugin: str
    distribution: str
    migrations: Sequence[PluginMigration]


def shipped_by(plugins: Collection[str] = ()) -> list[MigrationFolder]:
    """Sorted by name. Raises one PluginError with every problem."""
    found: list[MigrationFolder] = []
    problems: list[str] = []
    for name, points in sorted(_entry_points().items()):
        if plugins and name not in plugins:
            continue
        if len(points) > 1:
            both = " and ".join(sorted(_distribution(each) for each in points))
            problems.append(
                f"plugin {name!r}: {both} both have migrations by this name (entry points of the "
                f"group {GROUP!r}): uninstall one of them, or rename its plugin."
            )
            continue
        try:
            found.append(_read(points[0]))
        except PluginError as error:
            problems.append(f"plugin {name!r} ({_distribution(points[0])}): {error}")
    if problems:
        said = [f"Problems with migrations of plugins ({len(problems)}):", *problems]
        raise PluginError("\n- ".join(said))
    return found


def names() -> frozenset[str]:
    """The names of all installed plugins with migrations, valid or not."""
    return frozenset(_entry_points())


def _entry_points() -> dict[str, list[EntryPoint]]:
    found = defaultdict(list)
    for point in entry_points(group=GROUP):
        found[point.name].append(point)
    return found


def _distribution(point: EntryPoint) -> str:
    dist = point.dist
    return f"{dist.name} {dist.version}" if dist else "an unknown distribution"


def _read(point: EntryPoint) -> MigrationFolder:
    folder = _folder(point)
    migrations = sorted(_files(folder), key=lambda each: each.version)
    if not migrations:
        raise PluginError(
            f"{folder} has no file NNNN_name.sql: add the *.sql files to the distribution "
            "(package data), or remove the entry point."
        )
    for number, (before, each) in enumerate(zip([None, *migrations], migrations, strict=False), 1):
        if before is not None and before.version == each.version:
            raise PluginError(
                f"{before.label}.sql and {each.label}.sql have one number: give the file that has "
                "not run anywhere the next free number."
            )
        if each.version != number:
            raise PluginError(
                f"{each.label}.sql comes where {number:04d} is missing: numbers begin with 0001 "
                "and have no gaps."
            )
    return MigrationFolder(point.name, _distribution(point), tuple(migrations))


def _folder(point: EntryPoint) -> Path:
    first, *others = point.value.split(".")
    if not point.attr and all(map(str.isidentifier, (first, *others))):
        spec = find_spec(first)
        for place in (spec and spec.submodule_search_locations) or ():
            if (folder := Path(place, *others)).is_dir():
                return folder
    raise PluginError(
        f"its entry point {point.name} = {point.value!r} leads to no folder: name the module path "
        "of a folder of SQL files in the distribution, such as shop.migrations."
    )


def _files(folder: Path) -> Iterator[PluginMigration]:
    for file in sorted(folder.iterdir()):
        if file.suffix.lower() != ".sql" or file.name.startswith("."):
            continue  # other files of the package, or an editor's temporary files
        match = FILE_NAME.fullmatch(file.name)
        if match is None:
            raise PluginError(
                f"{file.name} is not a valid name of a migration: call it NNNN_name.sql, with four "
                "digits, and small letters, digits and underscores."
            )
        yield PluginMigration(int(match["version"]), match["name"], _text(file))


def _text(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise PluginError(f"{file.name} cannot be read: {error}; save it as UTF-8.") from error
    for found in _TRANSACTION.finditer(text):
        if found["how"].strip() != "none":
            raise PluginError(
                f"{file.name}: «{found[0].strip()}» is not a valid header: without one the file "
                "runs in one transaction, with «-- transaction: none» in none."
            )
        # The server would wait for rows that no client sends; text that may be a string counts.
        if _FROM_CLIENT.search(_COMMENT.sub("", text)):
            raise PluginError(
                f"{file.name}: COPY … FROM STDIN cannot run in a migration: use INSERT. If it is "
                "part of a string or a comment, rephrase that: a comment with quotes, $ or *, or "
                "after a statement, is read as SQL."
            )
    return text
