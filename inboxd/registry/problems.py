"""What is wrong with the settings, as far as only the plugins can tell: all of it, at once.

Owns how what several checks find becomes one SettingsError. Known limit: what is wrong with the
settings by themselves is found by `inboxd.settings.read`, and told together with it by
`inboxd.registry.plugins.accepted`.
"""

from collections.abc import Sequence

from inboxd.errors import SettingsError


def report(found: Sequence[str], gathered: list[str] | None) -> None:
    """Add what was found to what others found; with no others, raise it, if there is any."""
    if gathered is not None:
        gathered += found
    elif found:
        raise SettingsError("\n".join(found))
