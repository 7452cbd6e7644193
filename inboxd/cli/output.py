"""Printing: tables for people, JSON for programs.

Owns how values look. Promises: JSON has times in ISO 8601 and durations in seconds; what comes
from rows cannot move the cursor or colour the terminal. Known limit: a table is as wide as the
terminal; `--json` is never cut.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer

_PIPE_WIDTH = 240


def print_json(value: object, *, indent: bool = False) -> None:
    """One JSON document, on a line of its own unless a person reads it."""
    import orjson

    option = orjson.OPT_INDENT_2 if indent else 0
    typer.echo(orjson.dumps(value, default=_plain, option=option).decode())


def print_fields(heading: str, fields: Mapping[str, object]) -> None:
    """Names and values below each other, those without a value left out."""
    if heading:
        typer.echo(f"\n{heading}")
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        if value is not None:
            text = value if isinstance(value, str) else show(value)
            lines = [show(line) for line in text.splitlines()] or [""]
            typer.echo(f"  {name:<{width}}  " + f"\n  {'':<{width}}  ".join(lines))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table with a heading."""
    from rich.console import Console

    # A pipe has no width: what reads it searches for whole words.
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    Console(width=width).print(table(columns, rows))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Any:
    """The table as rich draws it."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    drawn = Table(*columns, box=SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        drawn.add_row(*(_cell(value) for value in row))
    return drawn


def show(value: object) -> str:
    """A value in a cell: without control characters, times to the second, durations short."""
    from datetime import datetime, timedelta

    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.3g}" if value < 1 else f"{value:.1f}"
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S")
        case timedelta():
            return f"{value.total_seconds():.3f}s"
        case _:
            return "".join(
                c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value)
            )


def _cell(value: object) -> Any:
    from rich.text import Text

    return Text(show(value))


def _plain(value: object) -> object:
    """What orjson does not know by itself."""
    from datetime import timedelta

    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value)
