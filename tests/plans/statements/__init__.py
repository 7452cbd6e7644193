"""Cases of every statement, as its users run it: the daemon, operators, producers, handlers.

    case, indexes = DAEMON["claim_lined_up"]
    await undone(session, case(session, known))

The cases run in transactions that are rolled back, on tables filled by `filling`, and before that
on empty ones, to make plans.
"""

from importlib import import_module
from pathlib import Path

from tests.plans.statements.bulk_actions import OF_ACTIONS, ORDERS
from tests.plans.statements.case import SQL, Case
from tests.plans.statements.daemon import DAEMON as _DAEMON
from tests.plans.statements.edits import EDITS
from tests.plans.statements.finding import FINDING
from tests.plans.statements.handlers import HANDLER
from tests.plans.statements.key_rates import KEY_RATES
from tests.plans.statements.messages import MESSAGES, STREAMS
from tests.plans.statements.operators import OPERATOR as _OPERATOR
from tests.plans.statements.producers import PRODUCER as _PRODUCER
from tests.plans.statements.receivers import LOOKS, RECEIVER
from tests.plans.statements.relays import LOOKED, RELAY
from tests.plans.statements.samples import CHARTS, SAMPLES
from tests.plans.statements.screens import SCREENS
from tests.plans.statements.statistics import OF_OPERATORS, OF_WORKERS
from tests.plans.statements.totals import CENSUS, TOTALS
from tests.plans.statements.why import WHY


def _of_features(session: str) -> dict[str, tuple[Case, tuple[str, ...]]]:
    """The cases in `tests/features/NAME/cases.py`, by the dict in which they are."""
    files = sorted((Path(__file__).parents[2] / "features").glob("*/cases.py"))
    modules = [import_module(f"tests.features.{file.parent.name}.cases") for file in files]
    return {name: case for each in modules for name, case in getattr(each, session, {}).items()}


# Receivers have the same sessions as the daemon.
DAEMON = {
    **_DAEMON,
    **RELAY,
    **KEY_RATES,
    **MESSAGES,
    **RECEIVER,
    **OF_WORKERS,
    **SAMPLES,
    **CENSUS,
    **OF_ACTIONS,
}
OPERATOR = {
    **_OPERATOR,
    **WHY,
    **EDITS,
    **FINDING,
    **LOOKS,
    **STREAMS,
    **LOOKED,
    **OF_OPERATORS,
    **CHARTS,
    **TOTALS,
    **ORDERS,
    **SCREENS,
    **_of_features("OPERATOR"),
}
PRODUCER = {**_PRODUCER, **_of_features("PRODUCER")}

__all__ = ["DAEMON", "HANDLER", "OPERATOR", "PRODUCER", "SQL", "Case"]
