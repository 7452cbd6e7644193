"""How counts, spans of time and sizes read in a sentence or a column: "2 rows", "8m4s", "12 kB".

Known limit: a word whose plural is not made with an s is not known.
"""

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def plural(count: int, word: str) -> str:
    """A number of them: "1 row", "2 rows", "1,200 rows"."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def span(seconds: float) -> str:
    """A time in at most two units: "250ms", "3.4s", "8m4s", "2h5m", "1d3h"."""
    whole = round(seconds)
    if seconds < 1:
        return f"{_short(max(seconds, 0) * 1000)}ms" if seconds > 0 else "0s"
    if whole < 60:  # noqa: PLR2004 - a minute
        return f"{_short(seconds)}s"
    place = next(n for n, (_, size) in enumerate(_UNITS) if whole >= size)
    (unit, size), (next_unit, next_size) = _UNITS[place], _UNITS[place + 1]
    count, rest = divmod(whole, size)
    return f"{count}{unit}" + (f"{rest // next_size}{next_unit}" if rest >= next_size else "")


def _short(number: float) -> str:
    """With one decimal, where that is worth something."""
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}".removesuffix(".0")  # noqa: PLR2004


def size(number: float) -> str:
    """Bytes: "12 kB", "3.4 GB", counted as PostgreSQL does."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1024:  # noqa: PLR2004 - the next unit
            return f"{_short(number)} {unit}"
        number /= 1024
    return f"{_short(number)} TB"
