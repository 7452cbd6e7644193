"""Results come in, on a real database.

To run it: `pip install 'inboxd[embedded]' pytest`, then `pytest tests`.
"""

import json
from decimal import Decimal
from typing import Any

import pytest

from bets import plugin
from inboxd import Handlers
from inboxd.testing import TestInbox


@pytest.fixture
def inboxd_handlers() -> Handlers:
    """Load this plugin alone, whatever else is installed."""
    return plugin.handlers


def place(inbox: TestInbox, bet: int, *selections: tuple[str, str, str], stake: str = "10") -> None:
    """`selections`: match, pick and odds of each."""
    inbox.execute(
        "INSERT INTO betting.bets (bet_id, customer_id, stake) VALUES ($1, 7, $2)",
        *(bet, Decimal(stake)),
    )
    for match, pick, odds in selections:
        inbox.execute(
            "INSERT INTO betting.selections (bet_id, match_id, pick, odds) VALUES ($1, $2, $3, $4)",
            *(bet, match, pick, Decimal(odds)),
        )


def result(
    inbox: TestInbox,
    match: str,
    score: str,
    *,
    status: str = "FINISHED",
    number: int = 1,
    check: bool = True,
) -> None:
    home, away = score.split(":")
    inbox.emit(
        "match.result",
        {
            "matchExternalId": match,
            "homeScore": int(home),
            "awayScore": int(away),
            "status": status,
            "providerEventId": f"{match}-{number}",
        },
    )
    inbox.drain(check=check)


def status(inbox: TestInbox) -> dict[int, str]:
    rows = inbox.fetch("SELECT bet_id, status FROM betting.bets ORDER BY 1")
    return {row["bet_id"]: row["status"] for row in rows}


def notices(inbox: TestInbox) -> list[tuple[Any, ...]]:
    rows = inbox.fetch(
        "SELECT (payload ->> 'bet_id')::bigint, payload ->> 'status' FROM inboxd.commands_history"
        " WHERE type = 'bets.notify_customer' AND status = 'succeeded' ORDER BY 1"
    )
    return [tuple(row.values()) for row in rows]


def paid(inbox: TestInbox) -> list[tuple[Any, ...]]:
    rows = inbox.fetch("SELECT bet_id, amount FROM betting.payments ORDER BY 1")
    return [tuple(row.values()) for row in rows]


def test_a_bet_of_two_selections_is_won_after_both_results(inbox: TestInbox) -> None:
    place(inbox, 123, ("liverpool-city", "home", "2.10"), ("real-barcelona", "draw", "3.50"))

    result(inbox, "liverpool-city", "2:1")
    assert status(inbox) == {123: "pending"}
    assert not notices(inbox)

    result(inbox, "real-barcelona", "1:1")
    assert status(inbox) == {123: "won"}
    assert notices(inbox) == [(123, "won")]
    assert paid(inbox) == [(123, Decimal("73.50"))]


def test_a_bet_is_lost_with_its_first_lost_selection_and_notified_once(inbox: TestInbox) -> None:
    place(inbox, 1, ("a", "home", "2"), ("b", "home", "2"))

    result(inbox, "a", "0:1")
    result(inbox, "b", "1:0")

    assert status(inbox) == {1: "lost"}
    assert notices(inbox) == [(1, "lost")]
    assert not paid(inbox)


def test_an_abandoned_match_does_not_count(inbox: TestInbox) -> None:
    place(inbox, 1, ("a", "home", "2"))
    place(inbox, 2, ("a", "home", "2"), ("b", "away", "1.5"))

    result(inbox, "a", "0:0", status="ABANDONED")
    result(inbox, "b", "0:1")

    assert status(inbox) == {1: "refunded", 2: "won"}
    assert paid(inbox) == [(1, Decimal(10)), (2, Decimal(15))]


def test_a_running_score_settles_nothing(inbox: TestInbox) -> None:
    place(inbox, 1, ("a", "home", "2"))

    result(inbox, "a", "1:0", status="LIVE")
    assert status(inbox) == {1: "pending"}

    result(inbox, "a", "1:1", number=2)
    assert status(inbox) == {1: "lost"}


def test_a_correction_ends_as_a_row_and_moves_no_money(inbox: TestInbox) -> None:
    """Only corrections that contradict the first final result go to a person."""
    place(inbox, 1, ("a", "home", "2"))
    place(inbox, 2, ("a", "home", "2"), ("b", "home", "2"))  # settled later, by 1:0 too

    result(inbox, "a", "1:0")
    result(inbox, "a", "0:1", number=2)
    result(inbox, "a", "1:0", number=3)
    result(inbox, "a", "5:5", status="LIVE", number=4)
    result(inbox, "a", "1:0", status="ABANDONED", number=5)
    result(inbox, "b", "1:0")

    assert status(inbox) == {1: "won", 2: "won"}
    assert notices(inbox) == [(1, "won"), (2, "won")]
    assert paid(inbox) == [(1, Decimal(20)), (2, Decimal(40))]
    corrections = inbox.fetch(
        "SELECT provider_event_id, verdict FROM betting.corrections ORDER BY received_at"
    )
    assert [tuple(row.values()) for row in corrections] == [
        ("a-2", "refused"),
        ("a-3", "repeated"),
        ("a-4", "late"),
        ("a-5", "refused"),
    ]
    reviewed = inbox.fetch(
        "SELECT payload ->> 'provider_event_id' FROM inboxd.commands_history"
        " WHERE type = 'bets.review_correction' AND status = 'succeeded' ORDER BY id"
    )
    assert [row[0] for row in reviewed] == ["a-2", "a-5"]
    assert not inbox.fetchval("SELECT count(*) FROM inboxd.events WHERE topic = 'match-results'")


def test_the_providers_document_is_taken_unchanged(inbox: TestInbox) -> None:
    place(inbox, 1, ("987654321", "home", "2"))
    document = (
        '{"matchExternalId": "987654321", "homeScore": 2, "awayScore": 1, '
        '"status": "FINISHED", "providerEventId": "prov-1"}'
    )
    inbox.emit("match.result", json.loads(document))
    inbox.drain()
    assert status(inbox) == {1: "won"}
    assert paid(inbox) == [(1, Decimal(20))]


def test_an_unreadable_result_is_a_dead_letter_and_delays_no_other(inbox: TestInbox) -> None:
    place(inbox, 1, ("a", "home", "2"))

    result(inbox, "a", "0:0", status="SUSPENDED", check=False)
    inbox.emit(
        "match.result",
        {"matchExternalId": "a", "status": "POSTPONED", "providerEventId": "a-2"},
    )
    inbox.drain(check=False)
    assert status(inbox) == {1: "pending"}
    result(inbox, "a", "1:0", number=3, check=False)

    assert status(inbox) == {1: "won"}
    dead = inbox.fetch("SELECT status FROM inboxd.events WHERE topic = 'match-results'")
    assert [row["status"] for row in dead] == ["failed", "failed"]


def test_the_result_of_a_match_without_bets_is_kept(inbox: TestInbox) -> None:
    result(inbox, "a", "1:0")
    assert inbox.fetchval("SELECT status FROM betting.results") == "FINISHED"


def test_a_match_is_settled_in_pages(inbox: TestInbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "PAGE", 3)
    for bet in range(1, 8):
        place(inbox, bet, ("a", "home", "2"))

    result(inbox, "a", "1:0")

    assert set(status(inbox).values()) == {"won"}
    assert [bet for bet, _ in notices(inbox)] == list(range(1, 8))
    runs = "SELECT count(*) FROM inboxd.commands_history WHERE type = 'bets.settle_match'"
    assert inbox.fetchval(runs) == 3


def test_other_services_get_counted_results_notifications_and_payments(
    inbox: TestInbox,
) -> None:
    place(inbox, 1, ("a", "home", "2"))

    result(inbox, "a", "0:0", status="LIVE")
    result(inbox, "a", "1:0", number=2)
    result(inbox, "a", "0:1", number=3)

    taken = inbox.events("matches.result", ordering_key="a")
    assert [(event.payload["home_score"], event.payload["status"]) for event in taken] == [
        (0, "LIVE"),
        (1, "FINISHED"),
    ]
    sent = (
        "SELECT command_id::text FROM inboxd.commands_history WHERE type = 'bets.notify_customer'"
    )
    notice = {"notification_id": inbox.fetchval(sent), "bet_id": 1, "customer_id": 7}
    notified = {**notice, "status": "won"}
    inbox.assert_emitted("customers.notified", notified, count=1, ordering_key="1")
    payment = inbox.fetchval("SELECT payment_id::text FROM betting.payments")
    paid = {"payment_id": payment, "bet_id": 1, "customer_id": 7, "amount": "20.00"}
    inbox.assert_emitted("payments.paid", paid, count=1, ordering_key="1")
