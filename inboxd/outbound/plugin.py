"""The handlers that are built in: what the settings ask for.

Promises that nothing of HTTP is imported where nothing is asked, and that a missing extra is one
clear error.
"""

from inboxd.api.handlers import Handlers
from inboxd.errors import UsageError
from inboxd.settings import Settings


def built_in(settings: Settings) -> Handlers | None:
    """The handlers; None: the settings ask for none. Raises UsageError or SettingsError."""
    if not (settings.outbound.http.enabled or settings.targets):
        return None
    try:
        from inboxd.outbound.requests import add_to  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if error.name != "aiohttp":
            raise
        raise UsageError(
            "asking targets needs aiohttp, which is not installed: pip install 'inboxd[http]'."
        ) from None
    handlers = Handlers("inboxd")
    add_to(handlers, settings)
    return handlers
