"""Plugins, and pretended versions of inboxd, for single workers.

    with found(install(tmp_path, "shop", code)):
        await start_worker({"worker": {"plugins": ["shop"]}})

Promises: they are found as installed distributions are. Known limit: only processes that start
inside the block find them, through PYTHONPATH.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest


def install(
    folder: Path,
    name: str,
    code: str,
    version: str = "1.0",
    *,
    migrations: Mapping[str, str | bytes] | None = None,
    points: str = "",
) -> Path:
    """Write a plugin `name` with this code below `folder`; return that, for PYTHONPATH.

    migrations: the files of its folder, by name. points: entry points instead of the default ones.
    """
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(code)
    info = _distribution(folder, name, version)
    own = f"[inboxd.handlers]\n{name} = {name}:handlers\n"
    if migrations is not None:
        own += f"[inboxd.migrations]\n{name} = {name}_migrations\n"
        write_migrations(folder, name, migrations)
    (info / "entry_points.txt").write_text(points or own)
    return folder


def write_migrations(folder: Path, name: str, files: Mapping[str, str | bytes]) -> None:
    """Add files to the plugin's folder of migrations."""
    place = folder / f"{name}_migrations"
    place.mkdir(exist_ok=True)
    for file, text in files.items():
        (place / file).write_bytes(text if isinstance(text, bytes) else text.encode())


def pretend(folder: Path, version: str) -> Path:
    """Make inboxd report this version as its own."""
    _distribution(folder, "inboxd", version)
    return folder


def _distribution(folder: Path, name: str, version: str) -> Path:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return info


@contextmanager
def found(*folders: Path) -> Iterator[None]:
    """Let workers that start inside the `with` block find the packages in these folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, folders)), prepend=os.pathsep)
        yield
