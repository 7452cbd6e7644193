"""Every error has a default message, and survives pickling by a child process."""

import pickle
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from inboxd import errors
from inboxd.errors import (
    CommandCancelled,
    CommandFailed,
    Defer,
    HandlerTimeout,
    InboxdError,
    LeaseLost,
    PayloadError,
    Reject,
    ResultTimeout,
    Retry,
    UsageError,
)

TREE = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and each.__module__.endswith("errors")
]


def test_the_docstring_is_the_default_message() -> None:
    assert str(LeaseLost()) == "This worker lost its lease: its work on the row no longer counts."
    assert str(LeaseLost("worker 3 lost it")) == "worker 3 lost it"
    assert str(Reject()) == "The handler rejected the payload for good."
    assert str(PayloadError()) == "The payload cannot be decoded."


@pytest.mark.parametrize("error", TREE)
def test_inboxd_error_catches_all(error: type[BaseException]) -> None:
    assert issubclass(error, InboxdError)
    assert error.__doc__


def test_a_payload_error_names_the_path() -> None:
    error = PayloadError("it is not a number.", "students.3.age")
    assert (str(error), error.path) == ("students.3.age: it is not a number.", "students.3.age")


def test_a_timeout_is_a_timeout_and_a_usage_error_is_a_value_error() -> None:
    assert issubclass(HandlerTimeout, TimeoutError)
    assert issubclass(ResultTimeout, TimeoutError)
    assert issubclass(UsageError, ValueError)


@pytest.mark.parametrize(
    "error",
    [
        PayloadError("it is not a number.", "age"),
        Retry("5s", "busy"),
        Retry(timedelta(seconds=1)),
        Retry(3, "busy", at_least=True),
        Defer(until=datetime(2030, 1, 1, tzinfo=UTC)),
        Defer(after=3),
        Reject("spam"),
        CommandFailed(uuid4(), "KeyError: 'a'"),
        CommandCancelled(uuid4()),
        ResultTimeout(uuid4(), "running", 2.5),
    ],
)
def test_pickling_keeps_everything(error: InboxdError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - bytes of this test
    assert (str(copy), vars(copy)) == (str(error), vars(error))


def test_defer_needs_one_moment_with_a_zone() -> None:
    with pytest.raises(UsageError, match="either until= or after="):
        Defer()
    with pytest.raises(UsageError, match="either until= or after="):
        Defer(datetime(2030, 1, 1, tzinfo=UTC), after="5s")
    with pytest.raises(UsageError, match="time zone"):
        Defer(datetime(2030, 1, 1))  # noqa: DTZ001 - the tested mistake
