"""What a failed test says: a promise is broken, or something did not happen in time.

The gate (`.ci/gate`) runs a failed test a second time, alone, unless it failed by a `Violation`: an
effect that took place twice may well take place once in the next run.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest

# "plain" is any other exception.
Kind = Literal["violation", "late", "plain"]


class Violation(AssertionError):
    """Safety is broken: an effect twice or never, a wrong order, a lost row, a wrong table."""


class Late(AssertionError):
    """Something did not happen in time."""


@contextmanager
def safety() -> Iterator[None]:
    """Let an assertion that fails in this block raise Violation; a wait in it may still be late."""
    try:
        yield
    except (Violation, Late):
        raise
    except AssertionError as error:
        raise Violation(str(error)) from error


def kind_of(error: BaseException) -> Kind:
    """The kind of a failure, by its exception, the members of a group, and their causes."""
    found = {_own_kind(each) for each in _chain(error)}
    kinds: tuple[Kind, ...] = ("violation", "late")
    return next((kind for kind in kinds if kind in found), "plain")


def told(error: BaseException) -> str:
    """One line for a failure: of a group, that of the member that decides its kind."""
    kind = kind_of(error)
    members = [each for each in _chain(error) if not isinstance(each, BaseExceptionGroup)]
    deciding = next((each for each in members if _own_kind(each) == kind), error)
    shown = deciding if isinstance(error, BaseExceptionGroup) else error
    first = next((line for line in str(shown).splitlines() if line.strip()), "")
    return f"{type(shown).__name__}: {first}"


def _own_kind(error: BaseException) -> Kind:
    if isinstance(error, Violation):
        return "violation"
    # pytest-timeout ends a test by pytest.fail.
    timed_out = isinstance(error, pytest.fail.Exception) and "Timeout" in str(error)
    return "late" if timed_out or isinstance(error, (Late, TimeoutError)) else "plain"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, what is grouped in it, and their causes; a suppressed context is none."""
    left, seen = [error], set[int]()
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            left += each.exceptions
        cause = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        if cause is not None:
            left.append(cause)
