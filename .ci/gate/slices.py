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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

from gate.settings import ROOT, Settings

LEDGER = ".ci/ledger.tsv"
_LEDGERS = {LEDGER, ".ci/unsteady.tsv"}


@dataclass(frozen=True)
class Choice:
    """The slices of a run, and the commit of the newest green run ("": not known).

    touched: with the commit of each slice's last run ("": not known). earlier: the slices of these
    that only earlier changes touched, and that were postponed since.
    """

    touched: Mapping[str, str]
    earlier: frozenset[str]
    turn: tuple[str, ...]
    rest: tuple[str, ...]
    base: str

    def told(self) -> str:
        """The choice as a line; "" without slices."""
        said = [
            f"{name} (touched since {base[:12]})" if base else f"{name} (no known base)"
            for name, base in self.touched.items()
        ]
        if self.turn:
            said.append(f"{', '.join(self.turn)} (ran longest ago)")
        if self.rest:
            said.append(f"not run: {', '.join(self.rest)}")
        return f"slices: {'; '.join(said)}" if said else ""


def choose(settings: Settings) -> Choice:
    """Choose the slices of this run.

    The tested commit's ledger tells which slices it touches, and whose turn it is. The order of
    those that it touches is that of the newest ledger: CI begins with the slices that `make ready`
    has postponed.
    """
    tested = tested_commit()
    lines, newest = _lines(tested), _lines("HEAD")
    bases = {name: line[1] for line in lines for name in line[2].split(",")}
    ran, last = _places(lines), _places(newest)
    changed = {base: _changed(base, tested) for base in {*bases.values(), *_base(lines)}}

    def is_touched(name: str, base: str) -> bool:
        files = changed.get(base)
        patterns = [*settings.everything, *settings.touches[name]]
        return files is None or _matches(files, patterns)

    order = sorted(settings.touches, key=lambda name: last.get(name, -1))
    touched = {
        name: bases[name] if changed.get(bases.get(name, "")) is not None else ""
        for name in order
        if is_touched(name, bases.get(name, ""))
    }
    rest = [name for name in settings.touches if name not in touched]
    rest.sort(key=lambda name: ran.get(name, -1))
    [base] = [each for each in _base(lines) if changed[each] is not None] or [""]
    earlier = frozenset(name for name in touched if base and not is_touched(name, base))
    return Choice(touched, earlier, tuple(rest[:1]), tuple(rest[1:]), base)


def _lines(commit: str) -> list[list[str]]:
    """The lines of a commit's ledger: date, commit, slices, minutes."""
    text = _git("show", f"{commit}:{LEDGER}") if commit else ""
    return [line.split("\t") for line in text.splitlines() if line.count("\t") > 1]


def _places(lines: Sequence[Sequence[str]]) -> dict[str, int]:
    """The number of the newest line of each slice."""
    return {name: number for number, line in enumerate(lines) for name in line[2].split(",")}


def _base(lines: Sequence[Sequence[str]]) -> list[str]:
    """The commit of the newest line, if there is a line."""
    return [lines[-1][1]] if lines else []


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


def _changed(base: str, commit: str) -> Sequence[str] | None:
    """The changed files; None if the base is not a commit before this one."""
    known = _git("rev-parse", "--verify", "--quiet", f"{base}^{{commit}}").strip()
    if not known or _git("merge-base", base, commit).strip() != known:
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
