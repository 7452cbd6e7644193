"""Limits of the rows and characters that one statement writes for handlers."""

from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from inboxd.api.drafts import CommandDraft, EventDraft
from inboxd.model.lineage import Lineage
from inboxd.store import commands, emitted
from inboxd.store.pages import pages
from inboxd.store.session import Session
from inboxd.store.settlements import Parent
from inboxd.store.statements import Statements

pytestmark = pytest.mark.anyio

LARGE = 4_000_000


@pytest.mark.parametrize(
    ("sizes", "ends"),
    [
        ([], []),
        ([0], [1]),
        ([2] * 5_000, [5_000]),
        ([2] * 10_001, [5_000, 10_000, 10_001]),
        ([LARGE, LARGE, LARGE, 1], [2, 4]),
        ([9 * LARGE, 1, 9 * LARGE, 9 * LARGE], [1, 3, 4]),
    ],
)
def test_statement_has_bounded_rows_and_characters(sizes: list[int], ends: list[int]) -> None:
    cuts = list(pages(sizes))
    assert [cut.stop for cut in cuts] == ends
    assert [cut.start for cut in cuts[:1]] == [0][: len(cuts)]
    assert all(one.stop == other.start for one, other in pairwise(cuts))


class _Connection:
    """Counts the rows of each statement."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    async def execute(self, _: str, ids: list[UUID], *__: object) -> None:
        self.rows.append(len(ids))


async def test_large_rows_go_in_several_statements() -> None:
    connection: Any = _Connection()
    session = Session(connection, Statements("inboxd"))
    parent = Parent("event", 1, Lineage(None, None, None))
    large, id_ = "x" * LARGE, UUID(int=1)
    await emitted.write(session, [(EventDraft(id_, "a.b", large), parent)] * 5)
    light = EventDraft(id_, "a.b", "{}", headers=large)
    await emitted.write(session, [(light, parent)] * 3)
    await commands.insert(session, [(CommandDraft(id_, "a.b", large), parent)] * 5)
    assert connection.rows == [2, 2, 1, 2, 1, 2, 2, 1]
