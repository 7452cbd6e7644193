"""The demo's output: steps, progress bars on a terminal, tables at the end.

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
    """The progress bars, drawn on a terminal only."""

    def __init__(self, progress: Progress, totals: dict[str, int]) -> None:
        self._progress = progress
        self._bars = {name: progress.add_task(name, total=n) for name, n in totals.items()}

    def show(self, **done: int) -> None:
        """Set each named bar to its count."""
        for name, count in done.items():
            self._progress.update(self._bars[name], completed=count)


class Screen:
    def __init__(self) -> None:
        """Write to standard output, with colours on a terminal."""
        self._console = Console(highlight=False, soft_wrap=True)

    def say(self, line: str) -> None:
        self._console.print(line, markup=False)

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Print the finished step and its duration, if the block raises nothing."""
        start = time.monotonic()
        yield
        self.say(f"{time.monotonic() - start:6.1f} s  {what}")

    @contextmanager
    def bars(self, **totals: int) -> Iterator[Bars]:
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
        """Print how long it stays, and wait for a key; on a terminal only."""
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
        table = Table(show_header=False, title=title, title_justify="left", title_style="bold")
        table.add_column(no_wrap=True, min_width=44)
        table.add_column(justify="right", no_wrap=True, min_width=16)
        for name, value in lines:
            table.add_row(name, value)
        self._console.print(table)

    def faults(self, faults: Iterable[str]) -> None:
        for fault in faults:
            self._console.print(f"WRONG: {fault}", style="bold red", markup=False)


@contextmanager
def _each_key() -> Iterator[None]:
    """Read single keys, not whole lines; Ctrl-C still interrupts."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin, termios.TCSANOW)
    try:
        yield
    finally:
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


def lines_of_emails(emails: Emails, mailbox: Mailbox, at_once: int) -> list[tuple[str, str]]:
    """The numbers of the e-mails, and the mail server's limit."""
    return [
        ("e-mails received by the mail server", f"{mailbox.delivered.total():,}"),
        ("  deferred by the server, then retried", f"{mailbox.deferred:,}"),
        ("  received again, and dropped", f"{mailbox.repeated:,}"),
        ("  refused for good, then replayed", f"{mailbox.refused:,}"),
        ("retries", f"{emails.retries:,}"),
        (
            "publication (all at once) to delivery, p50 / p99",
            _milliseconds(emails.published_to_sent),
        ),
        ("e-mails sent per second", f"{emails.rate:,.0f}"),
        (
            f"  at most: {at_once} at a time, {emails.each * 1000:,.0f} ms each",
            f"{emails.bound(at_once):,.0f}",
        ),
    ]


def lines_of_answers(answers: Answers) -> list[tuple[str, str]]:
    return [
        ("events handled", f"{answers.events:,}"),
        ("commands run, each in its own transaction", f"{answers.commands:,}"),
        ("seconds from the first to the last", f"{answers.seconds:.1f}"),
        ("rows settled per second", f"{answers.rate:,.0f}"),
    ]


def lines_of_all(totals: Totals) -> list[tuple[str, str]]:
    return [
        ("events handled", f"{totals.events:,}"),
        ("commands succeeded", f"{totals.commands:,}"),
        ("dead letters left", f"{totals.dead:,}"),
    ]


def _milliseconds(pair: tuple[float, float]) -> str:
    return " / ".join(f"{seconds * 1000:,.0f}" for seconds in pair) + " ms"
