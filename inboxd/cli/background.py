"""`--background`: the command previews and orders a bulk action, and workers carry it out."""

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
    background: Annotated[
        bool,
        typer.Option(
            "--background",
            help="Let workers change the rows; `inboxd actions list` shows their progress.",
        ),
    ] = False
    canary: Annotated[
        bool,
        typer.Option(
            "--canary",
            help="Replay ten rows first, and all further rows only if these ten succeed.",
        ),
    ] = False
    delay: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Time before workers start. Default: 5s."),
    ] = None

    def refuse_without_background(self) -> None:
        if not self.background and (self.canary or self.delay is not None):
            raise UsageError("--canary and --delay need --background.")

    def terms(self, rate: float | None, to: datetime | int | None) -> "OrderTerms":
        from inboxd.operations import OrderTerms

        delay = parse("5s" if self.delay is None else self.delay)
        return OrderTerms(to=to, delay=delay, rate=rate, canary=self.canary)


def order_lines(shown: dict[str, object]) -> list[str]:
    starts = show(shown["starts_at"])
    at_least = "" if shown["whole"] else "at least "
    rows = plural(int(str(shown["counted"])), str(shown["kind"]))
    return [
        f"Action {shown['id']}: {shown['verb']} {at_least}{rows}, starts at {starts}",
        f"To abort it: inboxd actions abort {shown['id']}",
    ]
