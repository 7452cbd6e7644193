"""Deliveries of webhooks to servers on loopback, which no endpoint reaches otherwise."""

from collections.abc import AsyncIterator

from inboxd import Handlers
from inboxd.outbound.addresses import Allowed
from inboxd.outbound.client import TargetClient
from inboxd.outbound.endpoints.delivery import DeliveryRules, declare

handlers = Handlers("delivering")
# ::1 is loopback too, and refused here.
_LOOPBACK = Allowed(["127.0.0.0/8"])


@handlers.lifespan
async def client() -> AsyncIterator[TargetClient]:
    """The connections of one worker."""
    async with TargetClient() as opened:
        yield opened


declare(handlers, DeliveryRules(5.0, 64 * 1024, 200, _LOOPBACK, "inboxd/tests"))
