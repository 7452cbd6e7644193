"""An endpoint as workers know it: where webhooks go, with which secrets, and how that has gone.

Promises that its text holds no secret. Known limit: it is as it was when it was read; a write
names the version that it rests on.
*See:* `store/endpoints.py`, which reads and writes them.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

# Why an endpoint is disabled: an operator did it; it failed for too long; it answered 410 (Gone);
# the settings of no worker have it any more.
DisabledBy: TypeAlias = Literal["operator", "failures", "gone", "settings"]


@dataclass(frozen=True, slots=True)
class WrittenEndpoint:
    """What the table says of one.

    secrets: those that sign now, the newest first. failing: the seconds for which it has been
    failing; disable_after: after so many it is to be disabled. rate: such as "10/s".
    """

    name: str
    url: str
    secrets: tuple[str, ...] = field(repr=False)
    ordered: bool
    rate: str | None
    concurrency: int | None
    enabled: bool
    failing: float | None
    disable_after: float
    version: int
