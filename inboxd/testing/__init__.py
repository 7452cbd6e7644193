"""For tests of plugins: run single handlers, or a real worker on a test's own database.

`run_event`, `run_command` and `run_chunk` need no PostgreSQL (`running`); the fixture `inbox` of
the pytest plugin gives a `TestInbox` (`pytest_plugin`). Names are loaded when they are first used:
pytest loads the plugin for each test suite, even if that never uses it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inboxd.errors import DrainTimeout, HandlersFailed
    from inboxd.model.outcome import Dead, Deferred, Failure, Outcome, Retrying, Succeeded
    from inboxd.testing.chunks import run_chunk
    from inboxd.testing.drained import Drained
    from inboxd.testing.inbox import TestInbox
    from inboxd.testing.running import Result, run_command, run_event
    from inboxd.testing.sent import EmittedEvent, SentBatch, SentCommand, SentStep, SentWebhook
    from inboxd.testing.stored import StoredCommand, StoredEvent
    from inboxd.testing.template import TestDatabase, TestServer

__all__ = [
    "Dead",
    "Deferred",
    "DrainTimeout",
    "Drained",
    "EmittedEvent",
    "Failure",
    "HandlersFailed",
    "Outcome",
    "Result",
    "Retrying",
    "SentBatch",
    "SentCommand",
    "SentStep",
    "SentWebhook",
    "StoredCommand",
    "StoredEvent",
    "Succeeded",
    "TestDatabase",
    "TestInbox",
    "TestServer",
    "run_chunk",
    "run_command",
    "run_event",
]

_HOMES = {
    "errors": ("DrainTimeout", "HandlersFailed"),
    "model.outcome": ("Dead", "Deferred", "Failure", "Outcome", "Retrying", "Succeeded"),
    "testing.chunks": ("run_chunk",),
    "testing.drained": ("Drained",),
    "testing.inbox": ("TestInbox",),
    "testing.running": ("Result", "run_command", "run_event"),
    "testing.sent": ("EmittedEvent", "SentBatch", "SentCommand", "SentStep", "SentWebhook"),
    "testing.stored": ("StoredCommand", "StoredEvent"),
    "testing.template": ("TestDatabase", "TestServer"),
}


# Hidden from type checkers, which would accept any misspelt name of a module with __getattr__.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        for home, names in _HOMES.items():
            if name in names:
                return getattr(import_module(f"inboxd.{home}"), name)
        raise AttributeError(f"module 'inboxd.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
