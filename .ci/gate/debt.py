"""Known unsteady tests: `.ci/unsteady.tsv` has a line for each, with test, date and error.

The gate reports an unsteady test, and `make ready` adds its line; the developer who mends the test
removes it. More than five lines make the run red, so that the debt stays small.
"""

import time
from collections.abc import Iterable

from gate.second_look import Judged
from gate.settings import ROOT

_LEDGER = ROOT / ".ci/unsteady.tsv"
MOST = 5


def known() -> list[str]:
    """The tests of the ledger."""
    if not _LEDGER.exists():
        return []
    lines = _LEDGER.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line.partition("\t")[0] for line in lines if line.strip()]


def new_lines(judged: Iterable[Judged], owed: Iterable[str]) -> list[str]:
    """Lines for the unsteady tests that the ledger does not have yet."""
    today, before = time.strftime("%Y-%m-%d"), set(owed)
    lines = {}
    for each in judged:
        test = each.failure.test
        if not each.is_red and test not in before:
            seen = f"{each.failure.stage}: {each.failure.error}; {each.pause}"
            lines[test] = f"{test}\t{today}\t{' '.join(seen.split())}"
    return list(lines.values())
