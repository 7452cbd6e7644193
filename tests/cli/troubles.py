"""The report of `inboxd doctor` for its tests.

Report(cli).one("workers", "critical", "no living worker")
"""

from collections.abc import Callable
from typing import Any

import asyncpg

from tests.cli.conftest import Cli

Sql = Callable[..., list[asyncpg.Record]]


class Report:
    """A run of the doctor: exit code, worst verdict, findings."""

    def __init__(self, cli: Cli, *options: str) -> None:
        result = cli("doctor", "--json", *options)
        self.code = result.code
        self.verdict: str = result.json["verdict"]
        self.findings: list[dict[str, Any]] = result.json["findings"]

    def of(self, subject: str) -> list[dict[str, Any]]:
        """Return the findings on a subject."""
        return [each for each in self.findings if each["subject"] == subject]

    def one(self, subject: str, verdict: str, *words: object) -> dict[str, Any]:
        """Return the one finding with this subject and verdict; it must contain these words."""
        (found,) = [each for each in self.of(subject) if each["verdict"] == verdict]
        for word in words:
            assert str(word) in found["found"] + found["remedy"], found
        assert verdict == "ok" or found["remedy"], "each problem has a remedy"
        return found
