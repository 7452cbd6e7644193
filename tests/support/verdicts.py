"""The kinds of a failed test: a promise is broken, or something did not happen in time.

    with safety():
        assert effects == {1: 1}  # raises Violation

The gate (`.ci/gate`) runs a failed test a second time, alone, unless it failed with a `Violation`:
a race that repeats an effect may not appear in the next run.
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
    """Raise Violation for an assertion that fails in this block; Late stays Late."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        if isinstance(error, Violation) or kind_of(error, about_safety=True) != "violation":
            raise
        raise Violation(str(error)) from error


def kind_of(error: BaseException, *, about_safety: bool = False) -> Kind:
    """The kind of a failure, by its exception, the members of a group, and their causes.

    about_safety: whether a failed assertion is a violation.
    """
    kinds = {_kind_of_member(each, about_safety=about_safety) for each in _members(error)}
    ranked: tuple[Kind, ...] = ("violation", "late")
    return next((kind for kind in ranked if kind in kinds), "plain")


def one_line(error: BaseException) -> str:
    """The type and first line of an error; for a group, of the member that decides its kind."""
    members = [each for each in _members(error) if not isinstance(each, BaseExceptionGroup)]
    kind = kind_of(error)
    deciding = [each for each in members if _kind_of_member(each, about_safety=False) == kind]
    shown = (deciding or [error])[0] if isinstance(error, BaseExceptionGroup) else error
    first = next((line for line in str(shown).splitlines() if line.strip()), "")
    return f"{type(shown).__name__}: {first}"


def _members(error: BaseException) -> Iterator[BaseException]:
    """The error, and of a group its members, recursively."""
    yield error
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _members(each)


def _kind_of_member(error: BaseException, *, about_safety: bool) -> Kind:
    if any(isinstance(each, Violation) for each in _causes(error, implicit=True)):
        return "violation"
    # The error that was being handled is not the cause of an assertion: only `raise ... from` is.
    if any(map(_is_late, _causes(error, implicit=False))):
        return "late"
    is_assertion = isinstance(error, (AssertionError, pytest.fail.Exception))
    return "violation" if about_safety and is_assertion else "plain"


def _is_late(error: BaseException) -> bool:
    # pytest-timeout ends a test with pytest.fail.
    timed_out = isinstance(error, pytest.fail.Exception) and "Timeout" in str(error)
    return timed_out or isinstance(error, (Late, TimeoutError))


def _causes(error: BaseException, *, implicit: bool) -> Iterator[BaseException]:
    """The error and its causes. implicit: also the errors that were being handled."""
    seen = set[int]()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        yield each
        seen.add(id(each))
        hidden = each.__suppress_context__ or not implicit
        each = each.__cause__ or (None if hidden else each.__context__)
