"""The known name that an unknown one probably means, or is similar to by chance."""

from collections.abc import Iterable
from difflib import get_close_matches


def meant(name: str, known: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(name, [*known], n=1)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The question "did you mean", as the end of a sentence; empty if no name is similar."""
    near = meant(name, known)
    return "" if near is None else f"; did you mean {near!r}?"
