"""Output of the command line, to compare a page with.

Example:
    listed = await printed(database, "commands", "list", "--status", "failed")
"""

import os
import sys
from typing import Any

import anyio
import orjson

from tests.support import Database


async def printed(database: Database, *arguments: object) -> Any:
    """The JSON document of a command, which runs as a process and must succeed."""
    command = [sys.executable, "-m", "inboxd", *map(str, arguments), "--json"]
    environment = {**os.environ, "INBOXD_DATABASE__DSN": database.dsn}
    done = await anyio.run_process(command, env=environment, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return orjson.loads(done.stdout)
