"""The known name that an unknown one probably means.

Owns how near two names must be. Known limit: a name that is near by chance is proposed too.
"""

from collections.abc import Iterable
from difflib import get_close_matches


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known name that is nearest to `name`; None when none is near."""
    return next(iter(get_close_matches(name, [*known], n=1)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The question whether that one was meant, to end a sentence with; empty when none is near."""
    near = meant(name, known)
    return "" if near is None else f"; did you mean {near!r}?"
