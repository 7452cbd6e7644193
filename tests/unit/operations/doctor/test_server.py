"""What the server's settings lose."""

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
    "followers": 0,
}


@pytest.mark.parametrize(
    ("given", "verdict", "words"),
    [
        ({}, None, ""),
        ({"followers": None, "standbys": None}, None, ""),  # not to be seen
        ({"followers": 1}, Verdict.NOTICE, "commits wait for none of 1 standby: a failover to one"),
        ({"followers": 2}, Verdict.NOTICE, "none of 2 standbys"),
        ({"followers": 2, "standbys": 1, "waits_for_standby": True}, None, ""),
        ({"waits_for_standby": True}, Verdict.CRITICAL, "commits wait for ever"),
    ],
)
def test_standbys_that_nothing_waits_for_are_told(
    given: dict[str, Any], verdict: Verdict | None, words: str
) -> None:
    """A 2xx is there on the primary alone: a failover to such a standby loses it."""
    found = list(server._settings({**_WELL, **given}))  # type: ignore[arg-type] # as a row is
    assert [each.verdict for each in found] == ([] if verdict is None else [verdict])
    assert all(words in each.found for each in found)
