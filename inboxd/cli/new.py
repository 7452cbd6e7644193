"""`inboxd new`: a plugin that runs, made from the files in `templates/plugin/`.

Owns which names a plugin may have, and how a template becomes a file: `.in` is taken off its name,
a folder `package` gets the name of the package, and in its text `{{package}}` and `{{project}}` are
replaced, nothing else.
Promises: the plugin's folder appears whole or not at all (it is written beside its place, then
renamed; in an empty folder that is there, its parts are); what is there already is not touched.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from keyword import iskeyword
from pathlib import Path, PurePath
from typing import Annotated

import typer

from inboxd.errors import UsageError
from inboxd.model.sql_words import is_reserved

_TEMPLATES = Path(__file__).parent / "templates" / "plugin"
_SUFFIX = ".in"

_NAME = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")
_LONGEST = 40  # a schema, and the names of topics and types, begin with it
# The package stands beside a folder of this name.
_BESIDE = ("tests",)
_SCHEMAS = ("public", "information_schema")  # which every database has


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The plugin's name.", show_default=False)
    ],
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            metavar="FOLDER",
            help="Where to make it: a new or an empty folder. Without it: one of its name here.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Make a plugin that runs: a handler of each kind, tables of its own, tests, settings."""
    names = _names(name)
    target = folder or Path(name)
    _write(target, dict(_rendered(names)))
    package = names["package"]
    typer.echo(
        f"Made {target}: the handlers are in {package}/plugin.py, the tables in "
        f"{package}/migrations/. Next:\n\n"
        f"  cd {target}\n"
        "  pip install -e '.[test]'\n"
        "  pytest\n"
        "  inboxd dev -c config.toml     # its README.md goes on from here"
    )


def _names(name: str) -> Mapping[str, str]:
    """What the name becomes in each place. Raises UsageError if it does not fit one of them."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise UsageError(
            f"{name!r} is not a valid name of a plugin: at most {_LONGEST} small letters and "
            "digits, in words with - or _ between them, a letter first, as in shop or order-mails."
        )
    package = name.replace("-", "_")
    project = name.replace("_", "-")
    for why in _refusals(package, project):
        raise UsageError(f"{name!r} cannot be the name of a plugin: {why}. Choose another one.")
    return {"package": package, "project": project}


def _refusals(package: str, project: str) -> Iterator[str]:
    """Why a package or a distribution cannot have this name."""
    from importlib.metadata import PackageNotFoundError, distribution

    if iskeyword(package):
        yield f"{package!r} is a word of Python's own"
    elif is_reserved(package) or package.startswith("pg_"):
        yield f"{package!r} is a word of PostgreSQL's own, and the plugin's schema has its name"
    if package in _SCHEMAS:
        yield f"each database has a schema {package!r}, and the plugin's has its name"
    if package in _BESIDE:
        yield f"the plugin's folder has another one that is called {package!r}"
    if package in sys.stdlib_module_names:
        yield f"it would hide Python's own module {package!r}"
    if (there := _module(package)) is not None:
        yield f"it would hide the module that is installed at {there}"
    with suppress(PackageNotFoundError):
        found = distribution(project)
        yield f"{found.name} {found.version} is installed"


def _module(package: str) -> str | None:
    """Where a module of this name is; a folder here does not count, only what is installed."""
    from importlib.util import find_spec

    spec = find_spec(package)
    if spec is None:
        return None
    places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
    here = Path.cwd()
    return next((place for place in places if place and Path(place).parent != here), None)


def _rendered(names: Mapping[str, str]) -> Iterator[tuple[PurePath, str]]:
    """Each file of the plugin, with what is in it."""
    for template in sorted(_TEMPLATES.rglob(f"*{_SUFFIX}")):
        text = template.read_text(encoding="utf-8")
        for word, value in names.items():
            text = text.replace(f"{{{{{word}}}}}", value)
        parts = template.relative_to(_TEMPLATES).with_suffix("").parts
        yield PurePath(*(names.get(part, part) for part in parts)), text


def _write(target: Path, files: Mapping[PurePath, str]) -> None:
    """Put the files into a new folder. Raises UsageError if that is not possible."""
    try:
        is_there = target.exists()
        if is_there and (not target.is_dir() or any(target.iterdir())):
            raise UsageError(f"{target} is there already, and is not an empty folder.")
        # A folder that is there stays the one that it is: somebody may stand in it.
        unfinished = (target if is_there else target.parent) / f".{target.name}.{os.getpid()}"
        unfinished.mkdir()
        try:
            for name, text in files.items():
                file = unfinished / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            if is_there:
                for part in unfinished.iterdir():
                    part.rename(target / part.name)
                unfinished.rmdir()
            else:
                unfinished.rename(target)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    except OSError as error:
        raise UsageError(
            f"{target} cannot be made: {error.strerror} ({error.filename}). Mend that, or name "
            "another folder with --folder."
        ) from error
