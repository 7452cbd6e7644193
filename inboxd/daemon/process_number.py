"""The number of a process under its supervisor."""

import os
from collections.abc import Mapping

# Environment variable: the supervisor gives each of its processes a number from 1 on.
PROCESS = "INBOXD_PROCESS"


def process_number(environ: Mapping[str, str] = os.environ) -> int | None:
    """This process's number among its supervisor's processes; None: it has no supervisor."""
    number = environ.get(PROCESS, "")
    return int(number) if number.isdecimal() else None
