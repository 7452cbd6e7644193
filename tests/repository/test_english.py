"""Sentences that must be read twice become fewer; users' texts contain none."""

import pytest

from tests.support.english import COUNTS, Offence, counts, offences, tracked, written

AGAIN = "python tests/support/english.py --write"


@pytest.fixture(scope="module")
def found() -> list[Offence]:
    return list(offences(tracked()))


def test_no_count_of_a_file_rises(found: list[Offence]) -> None:
    held, there = written(), counts(found)
    more = {key: count for key, count in there.items() if count > held.get(key, 0)}
    shown = "\n".join(
        f"{each.file}:{each.line}: {each.kind}: {each.sentence}"
        for each in found
        if (each.file, each.kind) in more
    )
    assert not more, f"use plain words:\n{shown}"


def test_users_texts_have_none(found: list[Offence]) -> None:
    shown = [f"{each.file}:{each.line}: {each.sentence}" for each in found if each.kind == "text"]
    assert not shown, "use plain words"


def test_counts_are_lowered_with_the_sentences(found: list[Offence]) -> None:
    held, there = written(), counts(found)
    fewer = {key: count for key, count in held.items() if there.get(key, 0) < count}
    assert not fewer, f"{COUNTS.name} holds too many: {AGAIN}"
