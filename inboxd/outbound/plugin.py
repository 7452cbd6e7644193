"""The built-in handlers; imports HTTP only if settings use it. *See:* `registry/plugins.py`."""

from collections.abc import AsyncIterator
from importlib.metadata import version

from inboxd.api.handlers import Handlers
from inboxd.errors import UsageError
from inboxd.settings import Settings


def built_in(settings: Settings) -> Handlers | None:
    """The handlers; None if the settings use none. Raises UsageError or SettingsError."""
    asks = settings.outbound.http.enabled or bool(settings.targets)
    delivers = settings.outbound.webhooks.enabled or bool(settings.endpoints)
    if not (asks or delivers):
        return None
    try:
        import aiohttp  # noqa: F401, PLC0415 - an extra
    except ModuleNotFoundError:
        raise UsageError(
            "the settings have targets or webhooks ([targets], [endpoints], [outbound]), which "
            "need aiohttp; it is not installed: pip install 'inboxd[http]'."
        ) from None
    handlers = Handlers("inboxd")
    _open_client(handlers, settings)
    if asks:
        from inboxd.outbound.requests import add_to  # noqa: PLC0415 - imports aiohttp

        add_to(handlers, settings)
    if delivers:
        _deliver(handlers, settings)
    return handlers


def _open_client(handlers: Handlers, settings: Settings) -> None:
    from inboxd.outbound.client import TargetClient  # noqa: PLC0415 - imports aiohttp

    connect_timeout = settings.outbound.http.connect_timeout.total_seconds()

    @handlers.lifespan
    async def client() -> AsyncIterator[TargetClient]:
        async with TargetClient(connect_timeout=connect_timeout) as opened:
            yield opened


def _deliver(handlers: Handlers, settings: Settings) -> None:
    from inboxd.outbound.addresses import Allowed  # noqa: PLC0415 - with the next one
    from inboxd.outbound.endpoints import emitted  # noqa: PLC0415
    from inboxd.outbound.endpoints.delivery import DeliveryRules, declare  # noqa: PLC0415

    http, webhooks = settings.outbound.http, settings.outbound.webhooks
    rules = DeliveryRules(
        timeout=webhooks.timeout.total_seconds(),
        most_answer=http.max_answer,
        keep_answer=http.keep_answer,
        allowed=Allowed(webhooks.allow),
        user_agent=f"inboxd/{version('inboxd')}",
        require_https=webhooks.require_https,
    )
    declare(handlers, rules)
    emitted.declare(handlers)
