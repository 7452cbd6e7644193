"""One worker's endpoint: when it fails, has recovered, or has to be disabled."""

import time
from dataclasses import replace

import anyio
import pytest

from inboxd.errors import SettingsError
from inboxd.model.endpoints import WrittenEndpoint
from inboxd.outbound.endpoints.book import EndpointBook
from inboxd.outbound.endpoints.endpoint import ServedEndpoint
from inboxd.signatures.contract import Key, SignedRequest
from inboxd.signatures.standard_webhooks import StandardWebhooksVerifier

OLD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLwAA"
NEW = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
ROW = WrittenEndpoint(
    name="acme",
    url="https://acme.example/hooks",
    secrets=(NEW, OLD),
    ordered=False,
    rate=None,
    concurrency=None,
    enabled=True,
    failing=None,
    succeeded=None,
    disable_after=100.0,
    version=1,
)


def failing(seconds: float, now: float) -> ServedEndpoint:
    """An endpoint that has been failing for `seconds` in the table."""
    return ServedEndpoint(replace(ROW, failing=seconds), now)


def test_a_failure_is_written_after_a_while_without_success() -> None:
    one = ServedEndpoint(ROW, 10.0)
    one.failed(503, "busy", 10.0)
    assert (one.unwritten(14.9), one.is_watched(14.9)) == (None, True)
    assert one.unwritten(15.0) == "failing"
    one.succeeded(200, 15.1)
    one.wrote("succeeded", 15.1)
    assert (one.unwritten(15.1), one.is_watched(15.1)) == (None, False)


def test_an_endpoint_that_is_disabled_soon_is_written_sooner() -> None:
    one = ServedEndpoint(replace(ROW, disable_after=2.0), 10.0)
    one.failed(503, "busy", 10.0)
    assert (one.unwritten(10.1), one.unwritten(10.25)) == (None, "failing")


def test_a_later_success_ends_failures_written_by_any_worker() -> None:
    one = ServedEndpoint(ROW, 10.0)
    one.succeeded(200, 30.0)
    one.wrote("succeeded", 30.0)
    assert one.learn(replace(ROW, failing=5.0, version=2), 32.0) is one  # since 27
    assert one.unwritten(32.0) == "recovered"
    one.learn(replace(ROW, failing=1.0, version=3), 32.0)  # since 31
    assert one.unwritten(32.0) is None


def test_a_failure_written_after_another_worker_s_success_is_older() -> None:
    """X fails, Y succeeds a second later, and X writes its failure after five seconds."""
    x, y = ServedEndpoint(ROW, 10.0), ServedEndpoint(ROW, 10.0)
    x.failed(500, "busy", 20.0)
    y.succeeded(200, 21.0)
    assert (x.unwritten(25.0), x.failed_for(25.0)) == ("failing", 5.0)
    x.wrote("failing", 25.0)
    y.wrote("succeeded", 25.0)
    # The table has the first failure, which is 5 seconds old at the reading.
    y.learn(replace(ROW, failing=5.0, version=2), 25.0)
    assert y.unwritten(25.0) == "recovered"
    assert y.recovered_by(25.0) == (200, 4.0)
    x.learn(replace(ROW, succeeded=4.0, version=3), 25.0)
    assert (x.unwritten(99.0), x.is_watched(99.0)) == (None, False)


def test_a_success_in_the_table_ends_earlier_failures() -> None:
    """The worker of that success may have ended."""
    one = ServedEndpoint(ROW, 10.0)
    one.failed(500, "busy", 20.0)
    one.learn(replace(ROW, succeeded=6.0), 25.0)  # at 19
    assert one.unwritten(25.0) == "failing"
    one.learn(replace(ROW, succeeded=4.0), 25.0)  # at 21
    assert one.unwritten(25.0) is None
    one.failed(500, "busy", 30.0)
    assert one.unwritten(35.0) == "failing"


def test_a_success_in_the_table_keeps_a_failing_endpoint_enabled() -> None:
    one = failing(50.0, 100.0)
    one.failed(500, "busy", 160.0)
    one.learn(replace(ROW, failing=130.0, succeeded=100.0), 180.0)  # since 50; well at 80
    one.failed(500, "busy", 181.0)
    assert one.unwritten(181.0) == "recovered"
    assert one.recovered_by(181.0) == (None, 101.0)


def test_a_failure_written_here_began_at_the_first_failure() -> None:
    """However long the reading takes, a success just before the failure does not count."""
    one = ServedEndpoint(ROW, 10.0)
    one.succeeded(200, 19.9)
    one.wrote("succeeded", 19.95)
    one.failed(500, "busy", 20.0)
    one.wrote("failing", 25.0)
    one.learn(replace(ROW, failing=5.5, succeeded=5.6, version=2), 25.0)
    assert one.unwritten(26.0) is None
    assert one.failing_for(26.0) == 6.0


def test_a_success_is_written_at_the_end() -> None:
    one = ServedEndpoint(ROW, 10.0)
    assert one.is_noted
    one.succeeded(200, 10.0)
    one.noted(one.last_success)
    one.wrote("succeeded", 10.5)
    assert one.is_noted
    one.succeeded(202, 30.0)
    assert (one.unwritten(31.0), one.is_noted, one.success(31.0)) == (None, False, (202, 1.0))


def test_another_worker_s_earlier_success_does_not_replace_this_one() -> None:
    one = ServedEndpoint(ROW, 10.0)
    one.succeeded(200, 10.0)
    one.wrote(
        "succeeded", 10.5
    )  # one success per minute is written, so the table has an earlier one
    assert (one.unwritten(11.0), one.is_noted) == (None, False)


def test_an_endpoint_that_another_worker_reached_has_to_fail_anew() -> None:
    one = failing(50.0, 100.0)
    one.failed(503, "busy", 101.0)
    one.learn(replace(ROW, version=3), 102.0)
    assert (one.unwritten(200.0), one.is_watched(200.0)) == (None, False)
    one.failed(503, "busy", 200.0)
    assert (one.unwritten(204.0), one.unwritten(205.0)) == (None, "failing")


def test_an_endpoint_is_disabled_by_a_failure_not_by_silence() -> None:
    one = failing(0.0, 10.0)
    one.failed(None, "no answer", 20.0)
    assert one.unwritten(500.0) is None
    one.failed(503, "busy", 110.0)
    assert one.unwritten(110.0) == "failures"
    one.succeeded(200, 110.5)
    assert one.unwritten(110.5) == "recovered"


def test_a_410_is_written_until_disabled_and_forgotten_when_enabled() -> None:
    one = ServedEndpoint(ROW, 10.0)
    one.is_gone(410, "gone", 10.0)
    assert (one.is_open, one.unwritten(10.0), one.is_watched(10.0)) == (False, "gone", True)
    one.learn(replace(ROW, version=2), 10.5)  # another worker's change
    assert (one.is_open, one.unwritten(10.5)) == (False, "gone")
    one.learn(replace(ROW, enabled=False, version=3), 11.0)
    assert (one.is_open, one.unwritten(11.0), one.is_watched(11.0)) == (False, None, False)
    one.learn(replace(ROW, version=4), 12.0)
    assert (one.is_open, one.unwritten(12.0)) == (True, None)


def test_answers_of_another_url_do_not_count() -> None:
    one = ServedEndpoint(ROW, 10.0)
    one.is_gone(410, "gone", 10.0)
    other = one.learn(replace(ROW, url="https://acme.example/new", version=2), 11.0)
    assert other is not one
    assert (other.is_open, other.unwritten(100.0)) == (True, None)
    assert dict(other.counts()) == {"succeeded": 0, "failed": 1}


def test_successes_are_written_once_a_minute() -> None:
    one = ServedEndpoint(ROW, 10.0)
    one.succeeded(200, 10.0)
    assert one.unwritten(10.0) == "succeeded"
    one.wrote("succeeded", 10.0)
    one.succeeded(200, 69.0)
    assert one.unwritten(69.0) is None
    one.succeeded(200, 70.0)
    assert one.unwritten(70.0) == "succeeded"


@pytest.mark.parametrize("secret", [OLD, NEW])
def test_each_current_secret_signs(secret: str) -> None:
    headers = ServedEndpoint(ROW, 0.0).sign(b"{}", "msg_1", 1000.0)
    verifier = StandardWebhooksVerifier([Key("one", secret.encode())], 5.0, {})
    assert verifier.verify(SignedRequest(headers, b"{}"), 1001.0) == "one"


def test_rotated_secrets_are_used_from_their_reading_on() -> None:
    one = ServedEndpoint(replace(ROW, secrets=(OLD,)), 0.0)
    before = one.sign(b"{}", "msg_1", 1000.0)["webhook-signature"]
    one.learn(replace(ROW, secrets=(NEW,), version=2), 1.0)
    after = one.sign(b"{}", "msg_1", 1000.0)["webhook-signature"]
    both = ServedEndpoint(ROW, 0.0).sign(b"{}", "msg_1", 1000.0)["webhook-signature"]
    assert both == f"{after} {before}"


def test_an_invalid_secret_is_reported_without_its_text() -> None:
    one = ServedEndpoint(replace(ROW, secrets=("whsec_nonsense!",)), 0.0)
    with pytest.raises(SettingsError, match="'acme' cannot be signed") as refused:
        one.sign(b"{}", "msg_1", 1000.0)
    assert "nonsense" not in str(refused.value)
    assert "nonsense" not in repr(one.written)


@pytest.mark.anyio
async def test_a_delivery_waits_for_the_next_reading() -> None:
    book = EndpointBook()
    earlier = book.reading()
    found: list[ServedEndpoint | None] = []

    async def find(name: str) -> None:
        found.append(await book.find(name))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(find, "acme")
        tasks.start_soon(find, "nobody")
        await anyio.wait_all_tasks_blocked()
        earlier()
        await anyio.wait_all_tasks_blocked()
        assert found == []
        taken_over = book.reading()
        book.reload({"acme": ROW}, 10.0)
        taken_over()
    assert [each and each.written.name for each in found] == ["acme", None]


def test_another_worker_s_failure_is_corrected_without_a_delivery() -> None:
    """A success here is younger than the failure that another worker has written."""
    book = EndpointBook()
    now = time.monotonic()
    book.reload({"acme": ROW}, now)
    (one,) = book.endpoints
    book.succeeded(one, 200)
    one.wrote("succeeded", now)
    assert book.unwritten(now) == []
    book.reload({"acme": replace(ROW, failing=5.0, version=2)}, time.monotonic())
    assert book.unwritten(time.monotonic()) == [(one, "recovered")]


def test_a_removed_or_moved_endpoint_has_no_unwritten_changes() -> None:
    book = EndpointBook()
    book.reload({"acme": ROW, "other": replace(ROW, name="other")}, 10.0)
    for one in list(book.endpoints):
        book.is_gone(one, 410, "gone")
    assert [(each.written.name, news) for each, news in book.unwritten(10.0)] == [
        ("acme", "gone"),
        ("other", "gone"),
    ]
    book.reload({"acme": replace(ROW, url="https://other.example/")}, 11.0)
    assert book.unwritten(11.0) == []
