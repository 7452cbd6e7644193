"""What is wrong with the settings, as far as only the plugins can tell: all of it, at once.

Owns how each overlay notes what it finds, and how that becomes one SettingsError. Known limit: what
is wrong with the settings by themselves is found by `inboxd.settings.read`, and told together with
it by `inboxd.registry.plugins.accepted`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from inboxd.errors import InboxdError, SettingsError


@contextmanager
def noted(problems: list[str], section: str, more: str = "") -> Iterator[None]:
    """Add what is wrong with a section, and `more` behind it; the others are looked at as well."""
    try:
        yield
    except InboxdError as error:
        problems.append(f"{section}: {error}{more}")


def refuse(problems: Sequence[str]) -> None:
    """Raise all of them as one SettingsError, if there are any."""
    if problems:
        raise SettingsError("\n".join(problems))
