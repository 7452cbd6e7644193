"""The results of a stage, test by test, from pytest's report log (JSON lines)."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

# "violation", "late" and "plain" are those of tests/support/verdicts.py; a "missing" test skipped
# itself where no test may.
Kind = Literal["violation", "late", "plain", "missing"]

_SECTION_LINES = 60


@dataclass(frozen=True)
class Failure:
    """A test that failed: where, how, and when, in seconds since the epoch (0: not known)."""

    stage: str
    test: str
    kind: Kind
    error: str
    text: str
    began: float
    ended: float


@dataclass(frozen=True)
class Results:
    """What a run of pytest came to; `exit_status` None: it did not get to its end."""

    passed: int
    failures: tuple[Failure, ...]
    exit_status: int | None


def read_results(stage: str, file: Path) -> Results:
    """Read a report log; one that is not there has no results."""
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
                return  # the last line of a run that was killed


def _test(report: dict[str, Any]) -> str:
    """The node id, without the group that pytest-xdist adds behind it."""
    return re.sub(r"@[\w-]+$", "", report["nodeid"])


def _failure(stage: str, report: dict[str, Any], began: Mapping[str, float]) -> Failure:
    properties = dict(map(tuple, report.get("user_properties", ())))
    kind: Kind = properties.get("kind", "plain")
    if report["outcome"] == "skipped":
        kind = "missing"
    text = _text(report)
    return Failure(
        stage=stage,
        test=_test(report),
        kind=kind,
        error=properties.get("error") or _error(report, text),
        text=text,
        began=began.get(_test(report), 0.0),
        ended=report.get("stop", 0.0),
    )


def _error(report: dict[str, Any], text: str) -> str:
    """The first line of what pytest says of the failure."""
    told = report.get("longrepr")
    message = text
    if isinstance(told, dict) and told.get("reprcrash"):
        message = told["reprcrash"]["message"]
    elif isinstance(told, list):  # a skip: file, line, reason
        message = str(told[-1])
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[0] if lines else "no text"


def _text(report: dict[str, Any]) -> str:
    """The traceback and what was captured, for a person."""
    told = report.get("longrepr")
    lines = list(_traceback(told)) if isinstance(told, dict) else str(told or "").splitlines()
    for title, content in report.get("sections", ()):
        written = content.splitlines()
        lines += [f"--- {title}", *_last(written, _SECTION_LINES)]
    return "\n".join(lines)


def _traceback(told: dict[str, Any]) -> Iterator[str]:
    tracebacks = [link[0] for link in told.get("chain") or ()] or [told.get("reprtraceback") or {}]
    for traceback in tracebacks:
        for entry in traceback.get("reprentries", ()):
            data = entry["data"]
            yield from data.get("lines", ())
            if place := data.get("reprfileloc"):
                yield f"{place['path']}:{place['lineno']}: {place['message']}"
            yield ""


def _last(lines: list[str], most: int) -> Iterable[str]:
    if len(lines) <= most:
        return lines
    return [f"… {len(lines) - most} lines before", *lines[-most:]]
