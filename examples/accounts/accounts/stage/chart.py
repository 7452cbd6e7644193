"""The chart in the terminal: registered, pending and provisioned users, and the breaker's state.

Owns the drawing. Promises: the chart fits into 80 columns, however long the demo takes. Where the
output is a file, it gets a line each second, and the chart once at the end.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from accounts.stage.looks import Look

_COLUMNS = 56
_HEIGHT = 3
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_STATES = {"closed": ("━", "green"), "half_open": ("▒", "yellow"), "open": ("█", "red")}


@contextmanager
def drawn(console: Console) -> Iterator[Callable[[list[Look]], None]]:
    """Yield a function that shows the looks so far: as a chart on a terminal, else as lines."""
    if not console.is_terminal:
        written = [-1]
        yield lambda looks: _write(console, looks, written)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda looks: live.update(chart(looks), refresh=True)


def chart(looks: Sequence[Look]) -> Group:
    """Draw the looks; with more looks than columns, each column shows the last of several."""
    step = max(1, ceil(len(looks) / _COLUMNS))
    shown = [looks[min(start + step, len(looks)) - 1] for start in range(0, len(looks), step)]
    most = max((each.registered for each in shown), default=0)
    waiting = max((each.pending for each in shown), default=0)
    return Group(
        *_bars("registered", [each.registered for each in shown], most, "cyan"),
        *_bars("pending", [each.pending for each in shown], waiting, "yellow"),
        *_bars("provisioned", [each.provisioned for each in shown], most, "green"),
        _breaker(shown),
        Text(f"{'seconds':>12} 0{_end(shown):>{max(1, len(shown) - 1)}}", style="dim"),
        Text(f"{'':12} ━ closed  █ open  ▒ half-open", style="dim"),
    )


def _bars(name: str, values: Sequence[int], most: int, style: str) -> Iterator[Text]:
    """Rows of blocks, the top one first; the bottom one has the name and the latest value."""
    heights = [ceil(value * _HEIGHT * 8 / most) if most else 0 for value in values]
    for row in reversed(range(_HEIGHT)):
        blocks = "".join(_EIGHTHS[min(8, max(0, height - 8 * row))] for height in heights)
        label = "" if row else name
        now = "" if row or not values else f" {values[-1]:,}"
        yield Text(f"{label:>12} ").append(blocks, style=style).append(now)


def _breaker(shown: Sequence[Look]) -> Text:
    line = Text(f"{'breaker':>12} ")
    for each in shown:
        line.append(*_STATES[each.state])
    return line.append(f" {_words(shown[-1].state)}" if shown else "")


def _write(console: Console, looks: Sequence[Look], written: list[int]) -> None:
    """Print one line for each second."""
    now = looks[-1]
    if int(now.at) == written[0]:
        return
    written[0] = int(now.at)
    console.print(
        f"{now.at:6.1f} s  registered {now.registered:5,}  pending {now.pending:5,}  "
        f"provisioned {now.provisioned:5,}  breaker {_words(now.state)}"
    )


def _words(state: str) -> str:
    return state.replace("_", "-")


def _end(shown: Sequence[Look]) -> str:
    return f"{shown[-1].at:.0f}" if shown else ""
