"""Checks this host's spool, in the folder of the settings, for `inboxd check` and `doctor`."""

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from inboxd.inbound.spool.folder import doubt_of_its_user
from inboxd.inbound.spool.inspection import FolderView, views
from inboxd.inbound.spool.trust import REMEDY
from inboxd.model.wording import plural, size, span
from inboxd.operations.doctor import thresholds
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.settings import InboundSpool, Settings

_SUBJECT = "spool"
_MOUNTS = Path("/proc/self/mountinfo")
# File systems whose locks are shared by several hosts or do not work; and file systems that are
# lost with the container or the host.
_REMOTE = ("nfs", "cifs", "smb", "9p", "ceph", "glusterfs", "lustre", "afs", "fuse.")
_PASSING = ("tmpfs", "ramfs", "overlay", "aufs")


def judge_spool(settings: Settings) -> Iterator[Finding]:
    """A finding for each problem, and one for all waiting receipts; empty without a spool."""
    spool = settings.inbound.spool
    if not settings.knows("inbound", "spool") or spool.path is None:
        return
    try:
        yield from _place(spool, spool.path)
        yield from _contents(views(spool.path))
    except OSError as error:
        found = f"not seen: {spool.path}: {error.strerror}"
        remedy = "run the command as the receiver's user, on its host"
        yield Finding(_SUBJECT, Verdict.NOTICE, found, remedy)


def _place(spool: InboundSpool, path: Path) -> Iterator[Finding]:
    there = next(each for each in (path, *path.parents) if each.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        yield Finding(
            _SUBJECT,
            Verdict.WARNING,
            f"this user may not write to {there}",
            "if it is the receiver's user, give it the folder: the receiver cannot start without",
        )
    kind = kind_of(there, _MOUNTS.read_text())
    if kind.startswith(_REMOTE):
        found = f"{path} is on {kind}: another machine does its locks and syncs"
        remedy = "set inbound.spool.path to a folder on a disk of this host"
        yield Finding(_SUBJECT, Verdict.WARNING, found, remedy)
    elif kind.startswith(_PASSING):
        found = f"{path} is on {kind}: waiting receipts are lost with the container or the host"
        remedy = "mount a volume there, or set inbound.spool.path to a folder on a disk"
        yield Finding(_SUBJECT, Verdict.WARNING, found, remedy)
    disk = shutil.disk_usage(there)
    if spool.quota > disk.total:
        found = f"the quota, {size(spool.quota)}, is more than the disk has: {size(disk.total)}"
        remedy = "lower inbound.spool.quota, which is per process; or use a larger disk"
        yield Finding(_SUBJECT, Verdict.WARNING, found, remedy, disk.total, "bytes")
    if problem := doubt_of_its_user(path):
        remedy = f"{REMEDY}: the receiver does not start with it"
        yield Finding(_SUBJECT, Verdict.WARNING, problem, remedy)


def _contents(folders: list[FolderView]) -> Iterator[Finding]:
    waiting = sum(each.waiting or 0 for each in folders)
    apart = sum(each.set_apart for each in folders)
    damaged = sum(each.damaged or 0 for each in folders)
    if apart or damaged:
        found = f"{apart:,} set apart, {damaged:,} damaged: an operator has to decide"
        remedy = "`inboxd spool list` has the reasons; then `inboxd spool drain --apart`, `discard`"
        yield Finding(_SUBJECT, Verdict.WARNING, found, remedy, apart + damaged, "rows")
    oldest = min((each.oldest for each in folders if each.oldest is not None), default=None)
    if oldest is None:
        yield Finding(_SUBJECT, Verdict.OK, "nothing waits", figure=waiting)
        return
    age = max(0.0, (datetime.now(UTC) - oldest).total_seconds())
    found = f"{plural(waiting, 'receipt')}, the oldest for {span(age)}"
    remedy = "they are drained when the database answers; the receiver's log has the reason"
    if not any(each.owner == "alive" for each in folders):
        found += "; no receiver runs on this host"
        remedy = "start the receiver, or `inboxd spool drain`"
    yield thresholds.SPOOLED_SECONDS.find(_SUBJECT, age, "seconds", found, remedy)


def kind_of(path: Path, mounts: str) -> str:
    """The type of a path's file system; `mounts`: the text of /proc/self/mountinfo."""
    kind, deepest = "", -1
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        at = Path(before.split()[4].replace("\\040", " "))
        depth = len(at.parts)
        if depth >= deepest and path.resolve().is_relative_to(at):
            kind, deepest = after.split()[0], depth
    return kind
