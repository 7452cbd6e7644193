"""The number of a process under its supervisor.

*See:* `store/workers.py`, `store/receivers.py`, which show it.
"""

import os
from collections.abc import Mapping

# From 1 on; the supervisor gives a number to each of its processes.
PROCESS = "INBOXD_PROCESS"


def process_number(environ: Mapping[str, str] = os.environ) -> int | None:
    """This process's number among its supervisor's processes; None: it has no supervisor."""
    number = environ.get(PROCESS, "")
    return int(number) if number.isdecimal() else None
