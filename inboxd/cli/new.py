"""`inboxd new`: makes a plugin that runs, from the files in `templates/plugin/`.

The ending `.in` of a template is removed, a folder `package` gets the package's name, and only
`{{package}}` and `{{project}}` are replaced. The plugin's folder appears complete or not at all (it
is written beside its place, then renamed); existing files are not changed.
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
_MOST_CHARACTERS = 40  # names of the schema, topics and types begin with the plugin's name
_FOLDERS = ("tests",)  # folders beside the package in the plugin's folder
_SCHEMAS = ("public", "information_schema")  # schemas of every database


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The plugin's name.", show_default=False)
    ],
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            metavar="FOLDER",
            help="The folder to make, new or empty. Default: the plugin's name, here.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Make a runnable plugin: a handler of each kind, its own tables, tests, settings."""
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
        "  inboxd dev -c config.toml     # README.md has the next steps"
    )


def _names(name: str) -> Mapping[str, str]:
    if not _NAME.fullmatch(name) or len(name) > _MOST_CHARACTERS:
        raise UsageError(
            f"{name!r} is not a valid plugin name: use at most {_MOST_CHARACTERS} lower-case "
            "letters and digits, in words joined by - or _, beginning with a letter, such as shop "
            "or order-mails."
        )
    package = name.replace("-", "_")
    project = name.replace("_", "-")
    for why in _refusals(package, project):
        raise UsageError(f"{name!r} cannot be a plugin name: {why}. Choose another name.")
    return {"package": package, "project": project}


def _refusals(package: str, project: str) -> Iterator[str]:
    from importlib.metadata import PackageNotFoundError, distribution

    if iskeyword(package):
        yield f"{package!r} is a reserved word of Python"
    elif is_reserved(package) or package.startswith("pg_"):
        yield f"{package!r} is a reserved word of PostgreSQL, and would name the plugin's schema"
    if package in _SCHEMAS:
        yield f"each database has a schema {package!r}, and the plugin's schema would have its name"
    if package in _FOLDERS:
        yield f"the plugin's folder has a folder {package!r} already"
    if package in sys.stdlib_module_names:
        yield f"it would hide Python's own module {package!r}"
    if (there := _module(package)) is not None:
        yield f"it would hide the module that is installed at {there}"
    with suppress(PackageNotFoundError):
        found = distribution(project)
        yield f"{found.name} {found.version} is installed"


def _module(package: str) -> str | None:
    """Return where a module of this name is installed; the current folder does not count."""
    from importlib.util import find_spec

    spec = find_spec(package)
    if spec is None:
        return None
    places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
    here = Path.cwd()
    return next((place for place in places if place and Path(place).parent != here), None)


def _rendered(names: Mapping[str, str]) -> Iterator[tuple[PurePath, str]]:
    for template in sorted(_TEMPLATES.rglob(f"*{_SUFFIX}")):
        text = template.read_text(encoding="utf-8")
        for word, value in names.items():
            text = text.replace(f"{{{{{word}}}}}", value)
        parts = template.relative_to(_TEMPLATES).with_suffix("").parts
        yield PurePath(*(names.get(part, part) for part in parts)), text


def _write(target: Path, files: Mapping[PurePath, str]) -> None:
    try:
        is_there = target.exists()
        if is_there and (not target.is_dir() or any(target.iterdir())):
            raise UsageError(f"{target} exists, and is not an empty folder: name another folder.")
        # An existing folder is filled, not replaced: it may be some shell's current folder.
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
            f"{target} cannot be made: {error.strerror} ({error.filename}). Correct that, or name "
            "another folder with --folder."
        ) from error
