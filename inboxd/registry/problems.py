"""Problems of the settings that only the plugins reveal, as one SettingsError."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from inboxd.errors import InboxdError, SettingsError


@contextmanager
def noted(problems: list[str], section: str, more: str = "") -> Iterator[None]:
    """Append the error of a section's block, followed by `more`; other sections go on."""
    try:
        yield
    except InboxdError as error:
        problems.append(f"{section}: {error}{more}")


def refuse(problems: Sequence[str]) -> None:
    if problems:
        raise SettingsError("\n".join(problems))
