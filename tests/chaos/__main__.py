"""`python -m tests.chaos --minutes 5 --seed 7`: chaos at a terminal."""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.run import run
from tests.chaos.schedule import describe


def main() -> int:
    """Run, and print the result; the exit code is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    parser.add_argument("--plan", action="store_true", help="show the schedule and end")
    parser.add_argument("--keep", action="store_true", help="keep the logs of a good run too")
    given = parser.parse_args()
    if given.plan:
        _say(describe(given.seed, given.minutes * 60))
        return 0
    folder = Path(tempfile.mkdtemp(prefix=f"inboxd-chaos-{given.seed}-"))
    began = time.monotonic()
    report = run(
        given.seed,
        given.minutes * 60,
        folder,
        lambda line: _say(f"[{time.monotonic() - began:6.1f}] {line}"),
    )
    _say(str(report))
    if report.broken:
        _say(f"again: make chaos SEED={given.seed} MINUTES={given.minutes:g}")
        return 1
    if not given.keep:
        shutil.rmtree(folder)
    _say("every promise held")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


sys.exit(main())
