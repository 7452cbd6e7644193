"""Problems of the settings that only the plugins reveal: all of them, at once.

Owns how each overlay notes its problems, and how they become one SettingsError. Known limit:
problems within the settings are found by `inboxd.settings.read`; `inboxd.registry.plugins.accepted`
reports both together.
"""

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
    """Raise one SettingsError with all problems, if there are any."""
    if problems:
        raise SettingsError("\n".join(problems))
