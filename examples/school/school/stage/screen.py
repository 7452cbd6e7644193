"""What the demo shows: steps, progress bars on a terminal, a table at the end.

Owns the output. Promises: a log file gets lines, not frames of an animation.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from school.stage.judge import Result
from school.stage.mailbox import Mailbox


class Bars:
    """The progress bars; drawn on a terminal only."""

    def __init__(self, progress: Progress, totals: dict[str, int]) -> None:
        """Begin each bar at zero."""
        self._progress = progress
        self._bars = {name: progress.add_task(name, total=n) for name, n in totals.items()}

    def show(self, **done: int) -> None:
        """Move the bars that are named."""
        for name, count in done.items():
            self._progress.update(self._bars[name], completed=count)


class Screen:
    """The demo's standard output."""

    def __init__(self) -> None:
        """Write to standard output, in colour if it is a terminal."""
        self._console = Console(highlight=False, soft_wrap=True)

    def say(self, line: str) -> None:
        """Print a line."""
        self._console.print(line, markup=False)

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Print what was done, and how long it took, when the block has ended well."""
        start = time.monotonic()
        yield
        self.say(f"{time.monotonic() - start:6.1f} s  {what}")

    @contextmanager
    def bars(self, **totals: int) -> Iterator[Bars]:
        """Show bars inside the `with` block."""
        columns = (
            TextColumn("{task.description:>9}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        hidden = not self._console.is_terminal
        with Progress(*columns, console=self._console, disable=hidden, transient=True) as progress:
            yield Bars(progress, totals)

    def table(self, result: Result, mailbox: Mailbox) -> None:
        """Print the numbers."""
        table = Table(show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        for name, value in _lines(result, mailbox):
            table.add_row(name, value)
        self._console.print(table)

    def faults(self, faults: Iterable[str]) -> None:
        """Print what is wrong."""
        for fault in faults:
            self._console.print(f"WRONG: {fault}", style="bold red", markup=False)


def _lines(result: Result, mailbox: Mailbox) -> list[tuple[str, str]]:
    return [
        ("events handled", f"{result.events:,}"),
        ("commands succeeded", f"{result.commands:,}"),
        ("e-mails received", f"{mailbox.delivered.total():,}"),
        ("  put off by the mail server", f"{mailbox.put_off:,}"),
        ("  received again and dropped", f"{mailbox.repeated:,}"),
        ("  refused for good", f"{mailbox.refused:,}"),
        ("retries", f"{result.retries:,}"),
        ("failures (dead letters)", f"{result.dead:,}"),
        ("seconds", f"{result.seconds:.1f}"),
        ("rows per second", f"{result.rate:,.0f}"),
        ("event written to settled, p50 / p99", _milliseconds(result.event_settled)),
        ("e-mail waited in its queue, p50 / p99", _milliseconds(result.email_started)),
        ("published to e-mail sent, p50 / p99", _milliseconds(result.mail_delivered)),
    ]


def _milliseconds(pair: tuple[float, float]) -> str:
    return " / ".join(f"{seconds * 1000:,.0f}" for seconds in pair) + " ms"
