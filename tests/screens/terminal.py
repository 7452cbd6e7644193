"""What the command line prints as JSON, for a page to be compared with."""

import os
import sys
from typing import Any

import anyio
import orjson

from tests.support import Database


async def printed(database: Database, *arguments: object) -> Any:
    """The document of `inboxd … --json`, run as a process of its own."""
    command = [sys.executable, "-m", "inboxd", *map(str, arguments), "--json"]
    environment = {**os.environ, "INBOXD_DATABASE__DSN": database.dsn}
    done = await anyio.run_process(command, env=environment, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return orjson.loads(done.stdout)
