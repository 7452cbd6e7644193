"""The helpers that most tests import: databases, worker processes, bounded waiting.

In a test: `from tests.support import Database, StartWorker, eventually`.
"""

from tests.support.databases import (
    Database,
    ExternalServer,
    ServerCopy,
    create,
    create_migrated,
    drop,
    server_copy,
    shared_folder,
    temporary_server,
)
from tests.support.waiting import eventually
from tests.support.worker import Config, StartWorker, Worker, looked_again

__all__ = [
    "Config",
    "Database",
    "ExternalServer",
    "ServerCopy",
    "StartWorker",
    "Worker",
    "create",
    "create_migrated",
    "drop",
    "eventually",
    "looked_again",
    "server_copy",
    "shared_folder",
    "temporary_server",
]
