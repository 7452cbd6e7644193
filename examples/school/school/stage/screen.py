"""What the demo shows: steps, progress bars on a terminal, a table at the end.

Owns the output. Promises: a log file gets lines, not frames of an animation.
"""

import asyncio
import sys
import termios
import time
import tty
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import anyio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from school.stage.judge import Answers, Emails, Totals
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

    async def stay(self, what: str, seconds: float) -> None:
        """Say what stays until a key is pressed, and wait for that; without a terminal, do not."""
        if not (self._console.is_terminal and sys.stdin.isatty()):
            return
        self.say(f"\n{what} for {seconds / 60:.0f} minutes, or until you press a key.")
        pressed = asyncio.Event()
        with _each_key(), anyio.move_on_after(seconds):
            asyncio.get_running_loop().add_reader(sys.stdin, pressed.set)
            try:
                await pressed.wait()
            finally:
                asyncio.get_running_loop().remove_reader(sys.stdin)

    def table(self, title: str, lines: Iterable[tuple[str, str]]) -> None:
        """Print numbers."""
        table = Table(show_header=False, title=title, title_justify="left", title_style="bold")
        table.add_column(no_wrap=True, min_width=44)
        table.add_column(justify="right", no_wrap=True, min_width=16)
        for name, value in lines:
            table.add_row(name, value)
        self._console.print(table)

    def faults(self, faults: Iterable[str]) -> None:
        """Print what is wrong."""
        for fault in faults:
            self._console.print(f"WRONG: {fault}", style="bold red", markup=False)


@contextmanager
def _each_key() -> Iterator[None]:
    """Give each key as it is pressed, not line by line; Ctrl-C stays what it is."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin, termios.TCSANOW)
    try:
        yield
    finally:
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


def lines_of_emails(emails: Emails, mailbox: Mailbox, at_once: int) -> list[tuple[str, str]]:
    """The numbers of the e-mails, with what bounds them."""
    return [
        ("e-mails received by the mail server", f"{mailbox.delivered.total():,}"),
        ("  put off by it, and tried again", f"{mailbox.put_off:,}"),
        ("  received again and dropped", f"{mailbox.repeated:,}"),
        ("  refused for good, and replayed", f"{mailbox.refused:,}"),
        ("retries", f"{emails.retries:,}"),
        ("published (all at once) to sent, p50 / p99", _milliseconds(emails.published_to_sent)),
        ("e-mails sent per second", f"{emails.rate:,.0f}"),
        (
            f"  at most: {at_once} at a time, {emails.each * 1000:,.0f} ms each",
            f"{emails.bound(at_once):,.0f}",
        ),
    ]


def lines_of_answers(answers: Answers) -> list[tuple[str, str]]:
    """The numbers of the answers."""
    return [
        ("events handled", f"{answers.events:,}"),
        ("commands run, each with a transaction", f"{answers.commands:,}"),
        ("seconds, from the first to the last", f"{answers.seconds:.1f}"),
        ("rows settled per second", f"{answers.rate:,.0f}"),
    ]


def lines_of_all(totals: Totals) -> list[tuple[str, str]]:
    """The numbers of the whole."""
    return [
        ("events handled", f"{totals.events:,}"),
        ("commands succeeded", f"{totals.commands:,}"),
        ("dead letters left", f"{totals.dead:,}"),
    ]


def _milliseconds(pair: tuple[float, float]) -> str:
    return " / ".join(f"{seconds * 1000:,.0f}" for seconds in pair) + " ms"
