"""From an error to the outcome, and to a failure that can always be stored."""

import io
import json
import random
from datetime import UTC, datetime, timedelta
from types import FunctionType
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.engine import row_log
from inboxd.errors import Defer, HandlerTimeout, NoHandler, PayloadError, Reject, Retry
from inboxd.model.backoff import Exponential, Fixed
from inboxd.model.outcome import (
    Dead,
    Deferred,
    Outcome,
    Retrying,
    Site,
    decide,
    explain,
    whole_traceback,
)
from inboxd.store.rows import ClaimedRow
from inboxd.telemetry import logs

SOON = Fixed(base="5s", attempts=3, permanent=(ZeroDivisionError,))
LATER = datetime(2030, 1, 1, tzinfo=UTC)


def decided(error: BaseException, made: int = 0, age: timedelta = timedelta(0)) -> Outcome:
    return decide(error, SOON, made, age, random)


def raised(error: BaseException) -> BaseException:
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


@pytest.mark.parametrize(
    "error",
    [PayloadError("no"), Reject("spam"), NoHandler(), ZeroDivisionError()],
)
def test_permanent_error_is_dead_at_once(error: Exception) -> None:
    assert isinstance(decided(error), Dead)


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError()]
)
def test_any_error_is_retried_until_attempts_are_spent(error: BaseException) -> None:
    first, second, third = (decided(error, made) for made in range(3))
    assert isinstance(first, Retrying)
    assert first.delay == 5
    assert isinstance(second, Retrying)
    assert isinstance(third, Dead)


def test_retry_names_its_own_wait() -> None:
    for after in (90, 90.0, "90s", "1m30s", timedelta(seconds=90)):
        outcome = decided(Retry(after, "busy"))
        assert isinstance(outcome, Retrying)
        assert outcome.delay == 90
        assert outcome.failure.error == "Retry: busy"


def test_retry_at_least_uses_the_longer_wait() -> None:
    for after, delay in ((3, 5), (90, 90)):
        outcome = decided(Retry(after, "busy", at_least=True))
        assert isinstance(outcome, Retrying)
        assert outcome.delay == delay


def test_retry_without_a_wait_uses_the_policy() -> None:
    outcome = decided(Retry())
    assert isinstance(outcome, Retrying)
    assert outcome.delay == 5


def test_retry_spends_attempts_and_age() -> None:
    assert isinstance(decided(Retry("1s"), made=2), Dead)
    policy = Exponential(max_age="1h")
    assert isinstance(decide(Retry(), policy, 0, timedelta(hours=2)), Dead)


def test_defer_spends_nothing() -> None:
    assert decided(Defer(until=LATER), made=99) == Deferred(until=LATER)
    assert decided(Defer(after="1m"), made=99) == Deferred(delay=60)


@pytest.mark.parametrize("after", ["soon", "5", -1, float("nan"), float("inf"), 1e300])
def test_invalid_wait_is_a_failure_of_the_handler(after: Any) -> None:
    for signal in (Retry(after), Defer(after=after)):
        outcome = decided(signal)
        assert isinstance(outcome, Retrying)
        assert outcome.failure.kind == "UsageError"
        assert outcome.delay == 5


def test_a_task_group_s_single_error_counts_as_itself() -> None:
    assert isinstance(decided(ExceptionGroup("tasks", [ExceptionGroup("inner", [Reject()])])), Dead)
    several = decided(ExceptionGroup("tasks", [Reject(), ValueError()]))
    assert isinstance(several, Retrying)
    assert several.failure.kind == "ExceptionGroup"


class Hostile(Exception):
    """Its message cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError


def test_hostile_error_does_not_prevent_settlement() -> None:
    assert explain(raised(Hostile())).error == "Hostile: <RuntimeError while making its message>"


def test_code_without_lines_does_not_prevent_settlement() -> None:
    def fails() -> None:
        raise ValueError

    units = len(fails.__code__.co_code) // 2
    # A compiler without locations writes such a table: eight instructions for each entry.
    table = bytes(0b1_1111_000 | min(8, units - n) - 1 for n in range(0, units, 8))
    fails.__code__ = fails.__code__.replace(co_linetable=table)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the test is about its traceback
        fails()
    assert caught.tb.tb_next is not None
    assert caught.tb.tb_next.tb_lineno in (None, -1)  # -1: Python 3.11.2
    failure = explain(caught.value, Site(type="a.b", package=__name__.partition(".")[0]))
    assert failure.kind == "ValueError"


@given(st.text(st.characters(codec=None)))
def test_a_failure_can_always_be_stored(text: str) -> None:
    failure = explain(raised(ValueError(text + "\0\ud800")))
    for stored in (failure.error, failure.traceback):
        assert "\0" not in stored
        stored.encode()


def test_a_failure_is_bounded_and_keeps_the_last_frames() -> None:
    def deep(n: int) -> None:
        if n:
            deep(n - 1)
        raise ValueError("x" * 100_000)

    with pytest.raises(ValueError, match="x") as caught:
        deep(200)
    failure = explain(caught.value)
    assert len(failure.error) == 1_000
    assert len(failure.traceback) <= 4_000
    assert failure.kind == "ValueError"


def test_passwords_are_masked_wherever_they_stand() -> None:
    def ask(_url: str) -> None:
        raise ExceptionGroup("x", [OSError("no answer of amqp://u:hunter2@h")])

    with pytest.raises(ExceptionGroup) as caught:
        ask("postgres://u:hunter2@h/db")
    error = RuntimeError("?password=hunter2 postgres://u:hunter2@h/db")
    error.__cause__ = caught.value
    failure = explain(raised(error))
    assert failure.error == "RuntimeError: ?password=******** postgres://u:********@h/db"
    assert 'ask("postgres://u:********@h/db")' in failure.traceback, "a masked line of code"
    assert "OSError: no answer of amqp://u:********@h" in failure.traceback
    for text in (failure.traceback, whole_traceback(error)):
        assert "hunter2" not in text
    assert explain(PayloadError("no", "a.x://u:hunter2@h")).path == "a.x://u:********@h"


def test_a_password_at_the_end_of_what_is_kept_is_masked() -> None:
    for spaces in range(980, 1_000):
        failure = explain(raised(ValueError(" " * spaces + "x://u:hunter2@h")))
        assert "hunt" not in failure.error
    long = " " * 19_980 + "x://u:" + "hunter2" * 10_000 + "@h"
    assert "hunter2" not in explain(raised(ValueError(long))).traceback


def test_the_traceback_ends_where_it_was_raised() -> None:
    assert "in raised" in explain(raised(KeyError("x"))).traceback


def test_path_of_a_payload_error_is_kept() -> None:
    assert explain(PayloadError("no", "a.0")).path == "a.0"
    assert explain(PayloadError("no", "k" * 5000)).path == "k" * 1000
    assert explain(ValueError()).path is None


def test_equal_failures_share_a_fingerprint() -> None:
    def one(text: str) -> BaseException:
        return raised(ValueError(text))

    def other() -> BaseException:
        with pytest.raises(ValueError, match=r"^$") as caught:
            raise ValueError
        return caught.value

    assert explain(one("a")).fingerprint == explain(one("b")).fingerprint
    assert explain(one("a")).fingerprint != explain(other()).fingerprint
    assert explain(one("a")).fingerprint != explain(raised(KeyError())).fingerprint


HERE = __name__.partition(".")[0]


def of(module: str, function: Any, moved: int = 0, **names: Any) -> Any:
    """The function as if it were in another module, `moved` lines further down."""
    code = function.__code__
    code = code.replace(co_filename=f"{module}.py", co_firstlineno=code.co_firstlineno + moved)
    return FunctionType(code, {"__name__": module, "__builtins__": __builtins__, **names})


def give_up(why: str) -> None:
    raise ValueError(why)


def handle(line: int) -> None:
    if line == 1:
        give_up("the first")
    give_up("the second")


def run(handle: Any, line: int) -> BaseException | None:
    try:
        handle(line)
    except ValueError as error:
        return error
    return None


def from_a_handler(line: int = 1, moved: int = 0) -> BaseException:
    """The error of a handler of the plugin `shop`, called by inboxd, which calls inboxd."""
    api = of("inboxd.api", give_up)
    handler = of("shop.plugin", handle, moved, give_up=api)
    error = of("inboxd.execution", run)(handler, line)
    assert isinstance(error, ValueError)
    return error


SHOP = Site("shop.order", "shop")


def test_two_lines_of_a_handler_are_two_causes() -> None:
    first, second = from_a_handler(1), from_a_handler(2)
    assert explain(first, SHOP).fingerprint != explain(second, SHOP).fingerprint
    assert explain(first, SHOP).fingerprint == explain(from_a_handler(1), SHOP).fingerprint


def test_the_same_line_of_two_methods_is_two_causes() -> None:
    """Both errors are raised in the first line of a method `run`."""

    class One:
        def run(self) -> None:
            raise ValueError

    class Other:
        def run(self) -> None:
            raise ValueError

    def failed(what: One | Other) -> BaseException:
        with pytest.raises(ValueError, match=r"^$") as caught:
            what.run()
        return caught.value

    here = Site("a", HERE)
    one, other = (explain(failed(what), here).fingerprint for what in (One(), Other()))
    assert one != other
    assert one == explain(failed(One()), here).fingerprint


def test_edits_above_a_function_keep_its_failure_groups() -> None:
    moved = from_a_handler(moved=7)
    assert explain(from_a_handler(), SHOP).fingerprint == explain(moved, SHOP).fingerprint


def test_lines_of_inboxd_and_of_libraries_may_move() -> None:
    """Only the plugin's lines are part of the key: upgrades of libraries do not change it."""

    def call(later: bool) -> None:
        if later:
            raise ValueError
        raise ValueError

    for module in ("driver", "inboxd.store"):
        for site in (Site("a", HERE), Site("a", "elsewhere")):
            raised_by = of(module, call)
            groups = {
                explain(of("inboxd.execution", run)(raised_by, late), site).fingerprint
                for late in (True, False)
            }
            assert len(groups) == 1


def test_a_traceback_begins_with_the_handler_s_own_frames() -> None:
    error = from_a_handler()
    error.__cause__ = from_a_handler()
    shown = explain(error, SHOP).traceback
    assert shown.startswith('  File "shop.plugin.py"')
    assert "inboxd.execution" not in shown
    assert shown.count("inboxd.api") == 2, (
        "frames that the handler called are shown, also those of inboxd"
    )
    assert "inboxd.execution" in whole_traceback(error)


def test_log_and_stored_failure_are_equal() -> None:
    """Tried with the single error of a group, and an invalid `Retry(after="soon")`."""
    written = io.StringIO()
    logs.configure("info", "json", stream=written)
    row = {"id": 1, "command_id": "c", "correlation_id": None, "type": "a", "attempts": 0}
    for error in (ExceptionGroup("all", [ValueError("one")]), Retry(after="soon")):
        outcome = decide(error, SOON, 0, timedelta(0), site=SHOP)
        assert isinstance(outcome, Retrying)
        row_log.did_not_succeed(cast("ClaimedRow", row), outcome, error, "shop")
        told = json.loads(written.getvalue().splitlines()[-1])
        assert told["error"] == outcome.failure.error


@pytest.mark.parametrize("level", ["debug", "info"])
def test_at_debug_the_log_has_the_frames_in_front_too(level: logs.Level) -> None:
    written = io.StringIO()
    logs.configure(level, "json", stream=written)
    row = {"id": 1, "command_id": "c", "correlation_id": None, "type": "a", "attempts": 0}
    error = from_a_handler()
    outcome = decide(error, SOON, 0, timedelta(0), site=SHOP)
    row_log.did_not_succeed(cast("ClaimedRow", row), outcome, error, "shop")
    told = json.loads(written.getvalue()).get("exception", "")
    assert ("inboxd.execution" in told) == (level == "debug")


def test_a_traceback_without_the_handler_is_whole() -> None:
    assert "inboxd.execution" in explain(from_a_handler(), Site("a", "elsewhere")).traceback
    assert "inboxd.execution" in explain(from_a_handler()).traceback


def test_payload_errors_are_grouped_by_field() -> None:
    same = {explain(PayloadError(text, "age")).fingerprint for text in ("a", "b")}
    assert len(same) == 1
    assert same != {explain(PayloadError("a", "name")).fingerprint}


def test_the_items_of_a_list_and_the_rows_of_a_type_are_one_group() -> None:
    email = Site("email.send")
    third = explain(PayloadError("no", "students.3.email"), email).fingerprint
    assert third == explain(PayloadError("no", "students.77.email"), email).fingerprint
    assert third != explain(PayloadError("no", "students.3.name"), email).fingerprint
    assert third != explain(PayloadError("no", "students.3.email"), Site("sms.send")).fingerprint


@pytest.mark.parametrize("error", [HandlerTimeout("ran longer than 3 s"), NoHandler("none")])
def test_failures_without_a_place_are_grouped_by_type(error: BaseException) -> None:
    other = type(error)("another message 4711")
    assert explain(error, Site("a")).fingerprint == explain(other, Site("a")).fingerprint
    assert explain(error, Site("a")).fingerprint != explain(error, Site("b")).fingerprint


def test_a_drivers_error_belongs_to_the_handler_that_met_it() -> None:
    """The innermost frame is always the driver's; the frames of the handler differ."""

    def driver(number: int) -> None:
        json.loads(f"{number} is no JSON")

    def first(number: int) -> BaseException:
        with pytest.raises(ValueError, match="Extra data") as caught:
            driver(number)
        return caught.value

    def second() -> BaseException:
        with pytest.raises(ValueError, match="Extra data") as caught:
            json.loads("1 2")
        return caught.value

    here = Site("a", __name__.partition(".")[0])
    assert explain(first(1), here).fingerprint == explain(first(2), here).fingerprint
    assert explain(first(1), here).fingerprint != explain(second(), here).fingerprint
    assert explain(first(1)).fingerprint == explain(second()).fingerprint, (
        "grouped by the driver's frame"
    )
