"""Every statement, as its users run it: the daemon, operators, producers, handlers.

The cases are run in transactions that are undone, on tables that `filling` filled, and before that
on empty ones, to make plans.
"""

from tests.plans.statements.case import SQL, Case
from tests.plans.statements.daemon import DAEMON
from tests.plans.statements.handlers import HANDLER
from tests.plans.statements.operators import OPERATOR
from tests.plans.statements.producers import PRODUCER

__all__ = ["DAEMON", "HANDLER", "OPERATOR", "PRODUCER", "SQL", "Case"]
