"""Reports each failed test to the gate: kind of failure, text, logs of its processes.

`tests/conftest.py` imports the hook. Kind and text are in the report's `user_properties`; logs are
copied to the folder INBOXD_TEST_KEPT, if it is set. In CI (INBOXD_TEST_EVERYTHING) a test that
skips itself fails, with the kind "missing".
"""

import os
import re
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.pooler import EVERYWHERE
from tests.support.verdicts import kind_of, one_line
from tests.support.worker import Worker

_EVERYTHING = bool(os.environ.get("INBOXD_TEST_EVERYTHING")) and not EVERYWHERE
_KEPT = Path(found) if (found := os.environ.get("INBOXD_TEST_KEPT")) else None
_MOST_LOGS = 20
_TEMPORARY = Path(tempfile.gettempdir())
_HAS_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note the kind of a failure; keep the logs when the test's fixtures have ended."""
    report = yield
    if _EVERYTHING and report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"INBOXD_TEST_EVERYTHING is set, so no test may be left out. {reason}"
        report.user_properties.append(("kind", "missing"))
    elif report.failed and call.excinfo is not None:
        error = call.excinfo.value
        about_safety = item.get_closest_marker("safety") is not None
        report.user_properties += [
            ("kind", kind_of(error, about_safety=about_safety)),
            ("error", one_line(error)),
            ("text", report.longreprtext),
        ]
    if report.failed:
        item.stash[_HAS_FAILED] = True
    if report.when == "teardown" and _KEPT is not None and item.stash.get(_HAS_FAILED, False):
        _keep_logs(item, _KEPT)
    return report


def _keep_logs(item: pytest.Item, kept: Path) -> None:
    """Copy the logs; a full disk or a missing file must not fail another test."""
    folder = kept / re.sub(r"[^\w.-]+", "-", item.nodeid)[-150:]
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        for number, log in enumerate(sorted(set(_logs(item)))[:_MOST_LOGS]):
            shutil.copy(log, folder / f"{number}-{log.name}")


def _logs(item: pytest.Item) -> Iterator[Path]:
    """The logs of the test's workers, and those in its folders."""
    arguments = getattr(item, "funcargs", None) or {}
    for value in arguments.values():
        if isinstance(value, Worker):
            yield value.log
        elif isinstance(value, Path) and value.is_relative_to(_TEMPORARY) and value.is_dir():
            yield from value.rglob("*.log")
