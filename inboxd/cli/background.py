"""`--background`: an action on all rows that match is ordered, and worked off by the workers.

Promises: what is ordered is shown before, as what is done at once is; nothing has begun when it
returns, and how to undo it is told.
*See:* `operations/bulk_orders.py`, after it; `cli/bulk_actions.py`, for what was ordered.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from inboxd.cli.groups import Options
from inboxd.cli.output import show
from inboxd.errors import UsageError
from inboxd.model.duration import parse
from inboxd.model.wording import plural

if TYPE_CHECKING:
    from inboxd.operations import OrderTerms


@dataclass(frozen=True, kw_only=True)
class InBackground(Options):
    """Whether workers do it, and how they begin."""

    background: Annotated[
        bool,
        typer.Option("--background", help="Let the workers do it: see `inboxd actions list`."),
    ] = False
    canary: Annotated[
        bool,
        typer.Option(
            "--canary", help="Ten rows first, the others only if all ten succeed; needs replay."
        ),
    ] = False
    delay: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="When workers begin: 5s from now, if not given."),
    ] = None

    def refuse_without_background(self) -> None:
        """Raise UsageError for what means nothing where it is done at once."""
        if not self.background and (self.canary or self.delay is not None):
            raise UsageError("--canary and --delay need --background.")

    def terms(self, rate: float | None, to: datetime | int | None) -> "OrderTerms":
        """How it is done. Raises UsageError."""
        from inboxd.operations import OrderTerms

        delay = parse("5s" if self.delay is None else self.delay)
        return OrderTerms(to=to, delay=delay, rate=rate, canary=self.canary)


def told(shown: dict[str, object]) -> list[str]:
    """What was ordered, and how it is undone."""
    at_least = "" if shown["whole"] else "at least "
    rows = plural(int(str(shown["counted"])), str(shown["kind"]))
    return [
        f"Action {shown['id']}: {shown['verb']} {at_least}{rows}, from {show(shown['starts_at'])}",
        f"Undo it: inboxd actions abort {shown['id']}",
    ]
