"""The results of a stage, test by test, from pytest's report log (JSON lines)."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

# "violation", "late" and "plain" are those of tests/support/verdicts.py; a "missing" test skipped
# itself where no test may.
Kind = Literal["violation", "late", "plain", "missing"]

_SECTION_LINES = 60


@dataclass(frozen=True)
class Failure:
    """A failed test: stage, error, and times in seconds since the epoch (0: unknown)."""

    stage: str
    test: str
    kind: Kind
    error: str
    text: str
    began: float
    ended: float


@dataclass(frozen=True)
class Results:
    """The result of a run of pytest. exit_status: None if it did not end normally."""

    passed: int
    failures: tuple[Failure, ...]
    exit_status: int | None


def read_results(stage: str, file: Path) -> Results:
    """Read a report log; a missing one has no results."""
    passed, failed, began = set[str](), dict[str, Failure](), dict[str, float]()
    exit_status = None
    for report in _reports(file):
        if "start" in report:
            began.setdefault(_test(report), report["start"])
        match report["$report_type"], report.get("outcome"), report.get("when"):
            case "SessionFinish", _, _:
                exit_status = report["exitstatus"]
            case _, "failed" | "skipped", _:
                failure = _failure(stage, report, began)
                first = failed.setdefault(failure.test, failure)
                if failure.kind == "violation" and first.kind != "violation":
                    failed[failure.test] = failure
            case _, "passed", "call":
                passed.add(_test(report))
    return Results(len(passed - failed.keys()), tuple(failed.values()), exit_status)


def _reports(file: Path) -> Iterator[dict[str, Any]]:
    if not file.exists():
        return
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                return  # the incomplete last line of a killed run


def _test(report: dict[str, Any]) -> str:
    """The node id, without the group that pytest-xdist appends."""
    return re.sub(r"@[\w-]+$", "", report["nodeid"])


def _failure(stage: str, report: dict[str, Any], began: Mapping[str, float]) -> Failure:
    """A Failure; kind, error and text are missing if the process has died."""
    known = dict(map(tuple, report.get("user_properties", ())))
    text = str(known.get("text") or report.get("longrepr") or "no text")
    kind: Kind = known.get("kind", "plain")
    return Failure(
        stage=stage,
        test=_test(report),
        kind="missing" if report["outcome"] == "skipped" else kind,
        error=known.get("error") or text.strip().splitlines()[0],
        text="\n".join([text, *_captured(report)]),
        began=began.get(_test(report), 0.0),
        ended=report.get("stop", 0.0),
    )


def _captured(report: dict[str, Any]) -> Iterator[str]:
    for title, content in report.get("sections", ()):
        lines = content.splitlines()
        yield f"--- {title}"
        if len(lines) > _SECTION_LINES:
            yield f"… {len(lines) - _SECTION_LINES} lines before"
        yield from lines[-_SECTION_LINES:]
