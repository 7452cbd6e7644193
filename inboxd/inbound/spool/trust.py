"""Decides whether a spool is trusted: its contents are drained as authentic webhooks.

A folder, or a file in it, is not trusted if it belongs to another account, is writable for other
accounts, or is a symbolic link. Known limits: root and the members of the receiver's groups are
trusted (Kubernetes' `fsGroup`); an account that may write above the path can remove the spool.
"""

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

REMEDY = (
    "check the contents (`inboxd spool list`), then chown it to the receiver's user, and chmod go-w"
)
_ROOT = 0


def distrusted(
    path: Path, of: os.stat_result | None = None, below: Collection[str] = ()
) -> str | None:
    """The problem; None: trusted, or missing. of: its owner is trusted; default: this user."""
    if of is None:
        owners, groups = {os.geteuid(), _ROOT}, {os.getegid(), *os.getgroups()}
    else:
        owners, groups = {of.st_uid, _ROOT}, {of.st_gid}
    for each in _all(path, below):
        try:
            found = each.lstat()
        except FileNotFoundError:  # for example a segment that was just drained
            continue
        if problem := _problem(found, owners, groups):
            return f"{each} {problem}, so it may hold forged webhooks"
    return None


def _all(path: Path, below: Collection[str]) -> Iterator[Path]:
    """The path with links resolved, the entries below it, and the contents of folders there."""
    yield path.resolve()
    for top in (path / name for name in below):
        yield top
        for folder in _names(top):
            yield folder
            yield from _names(folder)


def _names(folder: Path) -> Sequence[Path]:
    try:
        return [*folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _problem(found: os.stat_result, owners: Collection[int], groups: Collection[int]) -> str | None:
    if stat.S_ISLNK(found.st_mode):
        return "is a symbolic link"
    if found.st_uid not in owners:
        return f"belongs to user id {found.st_uid}"
    if found.st_mode & stat.S_IWOTH:
        return "is writable for every user"
    if found.st_mode & stat.S_IWGRP and found.st_gid not in groups:
        return f"is writable for group id {found.st_gid}"
    return None
