"""Whom the spool believes: what lies in its folders is drained as authentic webhooks.

Owns who may have written there. Promises: a folder, or a file in one, that is another account's, or
that others may write to, is believed by nobody, whatever is in it; symbolic links are none of ours.
Known limits: root, and the members of a group that the receiver is in, are believed (Kubernetes
gives a volume to such a group, `fsGroup`); who may write above the path may take all of it away.
"""

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

REMEDY = (
    "look at what is in it (`inboxd spool list`), then chown it to the receiver's user, and chmod "
    "go-w"
)
_ROOT = 0


def distrusted(
    path: Path, of: os.stat_result | None = None, below: Collection[str] = ()
) -> str | None:
    """Why the spool at a path is not believed; None: it is, or is not there.

    of: whose it is to be; left out: this process's. below: names of what is in it.
    """
    if of is None:
        owners, groups = {os.geteuid(), _ROOT}, {os.getegid(), *os.getgroups()}
    else:
        owners, groups = {of.st_uid, _ROOT}, {of.st_gid}
    for each in _all(path, below):
        try:
            found = each.lstat()
        except FileNotFoundError:  # such as a segment that was drained meanwhile
            continue
        if problem := _problem(found, owners, groups):
            return f"{each} {problem}, so that webhooks may lie there that nobody sent"
    return None


def _all(path: Path, below: Collection[str]) -> Iterator[Path]:
    """The path, which may be a link, what is in it, and the folders there with what they hold."""
    yield path.resolve()
    for top in (path / name for name in below):
        yield top
        for folder in _names(top):
            yield folder
            yield from _names(folder)


def _names(folder: Path) -> Sequence[Path]:
    """What is in a folder; nothing in what is none, or is gone."""
    try:
        return [*folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _problem(found: os.stat_result, owners: Collection[int], groups: Collection[int]) -> str | None:
    if stat.S_ISLNK(found.st_mode):
        return "is a symbolic link"
    if found.st_uid not in owners:
        return f"belongs to the user with the number {found.st_uid}"
    if found.st_mode & stat.S_IWOTH:
        return "may be written to by everybody"
    if found.st_mode & stat.S_IWGRP and found.st_gid not in groups:
        return f"may be written to by the group with the number {found.st_gid}"
    return None
