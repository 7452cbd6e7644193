"""Runs a red test of a slice that the change does not touch on the commit before, too.

If it is red there, the change inherits it: it is reported, and owed (`debt`), but not red.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gate.results import Failure
from gate.running import for_one_test, run_stage
from gate.second_look import Judged
from gate.settings import ROOT, Stage

# Making an environment there takes this long.
_SETUP_SECONDS = 400.0


def compare(
    judged: Iterable[Judged],
    untouched: Mapping[str, Stage],
    earlier: Container[str],
    base: str,
    folder: Path,
    seed: str,
    seconds_left: Callable[[], float],
) -> list[Judged]:
    """Mark red tests that are red on the base too as inherited.

    untouched: stages, by name. earlier: slices that an earlier change touched, and that were
    postponed since: their red tests stay red, and the text says that they were red before.
    """
    known = list(judged)
    asked = [each for each in known if each.is_red and each.failure.stage in untouched]
    if not asked or not base:
        return known
    told: dict[Failure, Judged] = {}
    with _checkout(base) as root:
        for number, each in enumerate(asked):
            stage = untouched[each.failure.stage]
            found = root and _is_red(
                *(each.failure, stage, root, folder, number, seed, seconds_left())
            )
            if found is None:
                said = f"{each.told}; not compared with {base[:12]}: no time was left"
                told[each.failure] = replace(each, told=said)
            elif found and stage.slice in earlier:
                said = f"{each.told}; red on {base[:12]} too, since an earlier change"
                told[each.failure] = replace(each, told=said)
            elif found:
                said = f"inherited: red on {base[:12]} too; {each.told}"
                told[each.failure] = replace(each, is_red=False, told=said, is_inherited=True)
    return [told.get(each.failure, each) for each in known]


def _is_red(
    failure: Failure,
    stage: Stage,
    root: Path,
    folder: Path,
    number: int,
    seed: str,
    seconds: float,
) -> bool | None:
    """Whether the same test fails on the base; a test that is missing there does not.

    None: not enough time was left.
    """
    limit = min(stage.limit + _SETUP_SECONDS, seconds)
    if limit <= 0:
        return None
    there = run_stage(
        for_one_test(stage, failure.test), folder, f"base-{number}", limit, seed, root
    )
    failed = there.results.failures if there.results else ()
    if there.was_ended and not failed:
        return None
    return any(each.test == failure.test for each in failed)


@contextmanager
def _checkout(commit: str) -> Iterator[Path | None]:
    """Check out a commit in a folder of its own; None if git cannot."""
    above = Path(tempfile.mkdtemp(prefix="inboxd-base-"))
    root = above / "inboxd"
    command = ["git", "-C", str(ROOT), "worktree", "add", "--quiet", "--detach", str(root), commit]
    made = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield root if made else None
    finally:
        shutil.rmtree(above, ignore_errors=True)
        prune = ["git", "-C", str(ROOT), "worktree", "prune"]
        subprocess.run(prune, capture_output=True, check=False)
