"""Plain words: sentences that have to be read twice become fewer, and users see none."""

import pytest

from tests.support.english import COUNTS, Offence, counts, offences, tracked, written

AGAIN = "python tests/support/english.py --write"


@pytest.fixture(scope="module")
def found() -> list[Offence]:
    """All that there are."""
    return list(offences(tracked()))


def test_no_file_has_more_than_it_had(found: list[Offence]) -> None:
    held, there = written(), counts(found)
    more = {key: count for key, count in there.items() if count > held.get(key, 0)}
    shown = "\n".join(
        f"{each.file}:{each.line}: {each.kind}: {each.sentence}"
        for each in found
        if (each.file, each.kind) in more
    )
    assert not more, f"say it in plain words:\n{shown}"


def test_the_counts_fall_with_the_sentences(found: list[Offence]) -> None:
    held, there = written(), counts(found)
    fewer = {key: count for key, count in held.items() if there.get(key, 0) < count}
    assert not fewer, f"{COUNTS.name} holds too many: {AGAIN}"
