"""The number of a process under its supervisor.

*See:* `store/workers.py`, `store/receivers.py`, which show it.
"""

import os
from collections.abc import Mapping

# From 1 on; the supervisor gives it to each of its processes.
PROCESS = "INBOXD_PROCESS"


def process_number(environ: Mapping[str, str] = os.environ) -> int | None:
    """Which of its supervisor's processes this one is; None: it has no supervisor."""
    number = environ.get(PROCESS, "")
    return int(number) if number.isdecimal() else None
