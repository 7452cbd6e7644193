"""Payloads of a version that this worker cannot read, while another worker may.

Owns the decision to leave such a row alone. Promises that a rolling deploy makes no dead letters of
what only the newer workers can read, and that nothing waits for ever (promise 10). Known limit: who
can read which version is not known; that workers differ is.
"""

from inboxd.api.messages import Row
from inboxd.errors import Defer, TooNew
from inboxd.runtime.parts import Parts

# What becomes of a row that another worker can read: it has so many seconds to take it.
FOR_ANOTHER = Defer(after=2)


def is_for_another(error: BaseException, row: Row, parts: Parts) -> bool:
    """Whether a version that is too new here should wait for a worker that can read it.

    In a rolling deploy there is one, or soon will be: for a while workers differ, and the row is
    young. It is deferred then, which spends no attempt; later it is a dead letter (promise 10).
    """
    grace = parts.settings.worker.unserved_grace.total_seconds()
    return isinstance(error, TooNew) and parts.fleet.differs and row["age"] < grace
