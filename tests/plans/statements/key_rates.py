# ruff: noqa: ARG005 - all cases take the same arguments, whether they need them or not
"""Cases of ordering keys that have a rate."""

from datetime import UTC, datetime

from inboxd.store import key_rates, purging
from tests.plans.statements.case import AGE, Case

_NOW = datetime.now(UTC)

KEY_RATES: dict[str, tuple[Case, tuple[str, ...]]] = {
    "take_key_turn": (
        lambda c, k: key_rates.take(c, "keyed", "k7", 1.0),
        ("key_rates_pkey",),
    ),
    "give_back_key_turn": (
        lambda c, k: key_rates.give_back(c, "keyed", "k7", _NOW),
        ("key_rates_pkey",),
    ),
    "purge_key_rates": (
        lambda c, k: purging.remove(c, "key_rates", AGE, 10),
        ("key_rates_next_at",),
    ),
}
