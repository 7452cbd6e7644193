"""Findings about settings of the server that can lose rows."""

from typing import Any

import pytest

from inboxd.operations.doctor import server
from inboxd.operations.doctor.finding import Verdict

_WELL: dict[str, Any] = {
    **dict.fromkeys(
        ("fsync", "full_page_writes", "autovacuum", "track_counts", "track_activities"), True
    ),
    "synchronous_commit": "on",
    "waits_for_standby": False,
    "standbys": 0,
    "unawaited": [],
}


@pytest.mark.parametrize(
    ("given", "verdict", "words"),
    [
        ({}, None, ""),
        ({"unawaited": None, "standbys": None}, None, ""),  # not visible to the role
        ({"unawaited": ["b at 10.0.0.2"]}, Verdict.NOTICE, "wait for 1 standby: b at 10.0.0.2; a"),
        (
            {"unawaited": list("bcdef")},
            Verdict.NOTICE,
            "wait for 5 standbys: b, c, d and 2 more; a failover to such a standby loses",
        ),
        ({"standbys": 1, "waits_for_standby": True}, None, ""),
        # Another standby is synchronous.
        (
            {"unawaited": ["slow"], "standbys": 1, "waits_for_standby": True},
            Verdict.NOTICE,
            "do not wait for 1 standby: slow",
        ),
        ({"waits_for_standby": True}, Verdict.CRITICAL, "commits wait for ever"),
    ],
)
def test_standbys_without_synchronous_commit_are_named(
    given: dict[str, Any], verdict: Verdict | None, words: str
) -> None:
    """Only the primary has a webhook that was answered 2xx: a failover loses it."""
    found = list(server._settings({**_WELL, **given}))  # type: ignore[arg-type] # a row's keys
    assert [each.verdict for each in found] == ([] if verdict is None else [verdict])
    assert all(words in each.found for each in found)
