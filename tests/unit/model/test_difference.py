"""Differences between two payloads, line by line."""

from hypothesis import given
from hypothesis import strategies as st

from inboxd.model.difference import difference

LINES = st.lists(st.sampled_from(["{", "}", '"a": 1', '"b": 2', '"c": 3']), max_size=12)


@given(LINES, LINES)
def test_both_texts_can_be_read_from_the_difference(before: list[str], after: list[str]) -> None:
    found = list(difference("\n".join(before), "\n".join(after)))
    if before == after:
        assert found == []
    else:
        assert [line for mark, line in found if mark != "+"] == before
        assert [line for mark, line in found if mark != "-"] == after


def test_inserted_line_is_the_only_change() -> None:
    assert list(difference("{\na\nb\n}", "{\na\nnew\nb\n}")) == [
        (" ", "{"),
        (" ", "a"),
        ("+", "new"),
        (" ", "b"),
        (" ", "}"),
    ]


def test_lines_of_large_payloads_are_not_matched() -> None:
    """Matching takes quadratic time, on the loop that answers all requests."""
    before = [f"{n}" for n in range(100_000)]
    after = ["first", *before[1:-1], "last"]
    found = list(difference("\n".join(before), "\n".join(after)))
    assert found == [*(("-", line) for line in before), *(("+", line) for line in after)]
    before[50_000:50_002] = ["}", "}"]
    after = [*before[:50_000], "x", *before[50_001:]]
    found = list(difference("\n".join(before), "\n".join(after)))
    assert [each for each in found if each[0] != " "] == [("-", "}"), ("+", "x")]
