"""The report of `inboxd doctor` as its tests read it."""

from collections.abc import Callable
from typing import Any

import asyncpg

from tests.cli.conftest import Cli

Sql = Callable[..., list[asyncpg.Record]]


class Report:
    """What the doctor said."""

    def __init__(self, cli: Cli, *options: str) -> None:
        result = cli("doctor", "--json", *options)
        self.code = result.code
        self.verdict: str = result.json["verdict"]
        self.findings: list[dict[str, Any]] = result.json["findings"]

    def of(self, subject: str) -> list[dict[str, Any]]:
        """The findings on a subject."""
        return [each for each in self.findings if each["subject"] == subject]

    def one(self, subject: str, verdict: str, *words: object) -> dict[str, Any]:
        """The one finding on a subject with this verdict, which names these words."""
        (found,) = [each for each in self.of(subject) if each["verdict"] == verdict]
        for word in words:
            assert str(word) in found["found"] + found["remedy"], found
        assert verdict == "ok" or found["remedy"], "it says what to do"
        return found
