"""A standalone async worker daemon on PostgreSQL: the names that plugins import.

Owns the plugin's public names. Promises: every name here is kept. A name is loaded when it is first
used, so that a service can import `inboxd.client` without the daemon's dependencies.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inboxd.api.batches import Batch
    from inboxd.api.chunks import BlockingEventChunk, EventChunk
    from inboxd.api.connection import BlockingConnection, Connection, Record
    from inboxd.api.context import (
        BlockingCommandContext,
        BlockingEventContext,
        CommandContext,
        EventContext,
    )
    from inboxd.api.handlers import Handlers
    from inboxd.api.hooks import FailedAttempt, WorkerInfo
    from inboxd.api.messages import Event
    from inboxd.api.middleware import Call, Proceed
    from inboxd.api.workflows import Step, Workflow
    from inboxd.brokers.contract import OutgoingMessage, Publisher, Tell
    from inboxd.errors import (
        BreakerOpen,
        BrokerUnavailable,
        Defer,
        InboxdError,
        MessageRefused,
        PayloadError,
        Reject,
        Retry,
    )
    from inboxd.model.backoff import Explicit, Exponential, Fixed, Linear
    from inboxd.outbound.request import HttpRequest
    from inboxd.settings.brokers import Broker

__all__ = [
    "Batch",
    "BlockingCommandContext",
    "BlockingConnection",
    "BlockingEventChunk",
    "BlockingEventContext",
    "BreakerOpen",
    "Broker",
    "BrokerUnavailable",
    "Call",
    "CommandContext",
    "Connection",
    "Defer",
    "Event",
    "EventChunk",
    "EventContext",
    "Explicit",
    "Exponential",
    "FailedAttempt",
    "Fixed",
    "Handlers",
    "HttpRequest",
    "InboxdError",
    "Linear",
    "MessageRefused",
    "OutgoingMessage",
    "PayloadError",
    "Proceed",
    "Publisher",
    "Record",
    "Reject",
    "Retry",
    "Step",
    "Tell",
    "WorkerInfo",
    "Workflow",
]

_HOMES = {
    "api.batches": ("Batch",),
    "api.connection": ("BlockingConnection", "Connection", "Record"),
    "api.context": (
        "BlockingCommandContext",
        "BlockingEventContext",
        "CommandContext",
        "EventContext",
    ),
    "api.handlers": ("Handlers",),
    "api.hooks": ("FailedAttempt", "WorkerInfo"),
    "api.chunks": ("BlockingEventChunk", "EventChunk"),
    "api.messages": ("Event",),
    "api.middleware": ("Call", "Proceed"),
    "api.workflows": ("Step", "Workflow"),
    "brokers.contract": ("OutgoingMessage", "Publisher", "Tell"),
    "errors": (
        "BreakerOpen",
        "BrokerUnavailable",
        "Defer",
        "InboxdError",
        "MessageRefused",
        "PayloadError",
        "Reject",
        "Retry",
    ),
    "outbound.request": ("HttpRequest",),
    "model.backoff": ("Explicit", "Exponential", "Fixed", "Linear"),
    "settings.brokers": ("Broker",),
}


# Hidden from type checkers, which would accept any misspelt name of a module with __getattr__.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        for home, names in _HOMES.items():
            if name in names:
                return getattr(import_module(f"inboxd.{home}"), name)
        raise AttributeError(f"module 'inboxd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
