"""Selects the slices of a run: those that the change touches, and the one that ran longest ago.

A slice is a part of the stages that does not run each time. `.ci/ledger.tsv` has a line for each
green `make ready`: date, commit, the slices that ran. The commit of the newest line that has a
slice is the base of that slice, and the difference to it is the slice's change: a slice that a gate
had no time for stays touched until a gate runs it. The slice that ran longest ago comes first. CI
selects the same slices as `make ready`, since a commit that changes only ledgers, or nothing,
counts as the one before. A slice without a known base, as in a clone without history, counts as
touched.
"""

import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

from gate.settings import ROOT, Settings

LEDGER = ".ci/ledger.tsv"
_LEDGERS = {LEDGER, ".ci/unsteady.tsv"}


@dataclass(frozen=True)
class Choice:
    """The slices of a run, and the commit of the newest green run ("": not known)."""

    touched: tuple[str, ...]
    turn: tuple[str, ...]
    rest: tuple[str, ...]
    base: str

    def told(self) -> str:
        """The choice as a line; "" without slices."""
        said = []
        if self.touched:
            said.append(f"{', '.join(self.touched)} (touched)")
        if self.turn:
            said.append(f"{', '.join(self.turn)} (ran longest ago)")
        if self.rest:
            said.append(f"not run: {', '.join(self.rest)}")
        return f"slices: {'; '.join(said)}" if said else ""


def choose(settings: Settings) -> Choice:
    """Choose the slices of this run."""
    tested = tested_commit()
    lines = [line.split("\t") for line in _ledger(tested).splitlines() if line.count("\t") > 1]
    changed = {line[1]: _changed(line[1], tested) for line in lines}
    ran = {name: number for number, line in enumerate(lines) for name in line[2].split(",")}
    order = sorted(settings.touches, key=lambda name: ran.get(name, -1))

    def is_touched(name: str) -> bool:
        files = changed[lines[ran[name]][1]] if name in ran else None
        patterns = [*settings.everything, *settings.touches[name]]
        return files is None or _matches(files, patterns)

    touched = [name for name in order if is_touched(name)]
    rest = [name for name in order if name not in touched]
    base = lines[-1][1] if lines and changed[lines[-1][1]] is not None else ""
    return Choice(tuple(touched), tuple(rest[:1]), tuple(rest[1:]), base)


def new_line(commit: str, ran: Iterable[str], seconds: float) -> str:
    """A line of the ledger for a green run."""
    fields = (time.strftime("%Y-%m-%d"), commit, ",".join(ran), f"{seconds / 60:.0f} min")
    return "\t".join(fields)


def tested_commit() -> str:
    """The newest commit that changes more than the ledgers; "" if there is no commit."""
    commit = _git("rev-parse", "HEAD").strip()
    while before := _git("rev-parse", "--verify", "--quiet", f"{commit}^").strip():
        if not _LEDGERS.issuperset(_git("diff", "--name-only", before, commit).split()):
            break
        commit = before
    return commit


def _ledger(commit: str) -> str:
    return _git("show", f"{commit}:{LEDGER}") if commit else ""


def _changed(base: str, commit: str) -> Sequence[str] | None:
    """The changed files; None if the base is not a commit before this one."""
    if _git("merge-base", base, commit).strip() != _git("rev-parse", base).strip():
        return None
    return _git("diff", "--name-only", "--no-renames", base, commit).splitlines()


def _matches(files: Iterable[str], patterns: Iterable[str]) -> bool:
    wanted = list(patterns)
    return any(fnmatch(file, pattern) for file in files for pattern in wanted)


def _git(*arguments: str) -> str:
    """The output of git; "" if it fails."""
    command = ["git", "-C", str(ROOT), "-c", "core.quotepath=off", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""
