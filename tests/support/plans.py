"""The plans of statements as they ran: the server tells them (auto_explain), functions' included.

Promises: what is told is what ran, with the session's own settings, and what each step touched.
Known limit: the session must be a superuser's, and is one that tells from then on.
"""

import json
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any

import asyncpg

from inboxd.store.connections import Connection

# Makes a session tell the plans of what it runs, functions' included.
TELL = """
load 'auto_explain';
set client_min_messages = log;
set auto_explain.log_min_duration = 0;
set auto_explain.log_format = json;
set auto_explain.log_analyze = on;
set auto_explain.log_timing = off;
set auto_explain.log_buffers = on;
set auto_explain.log_nested_statements = on;
"""


async def told(connection: Connection, work: Awaitable[object]) -> list[dict[str, Any]]:
    """The nodes of all plans that ran for `work`; a plan's root has no "Parent Relationship"."""
    heard: list[str] = []

    def hear(_: object, message: asyncpg.PostgresLogMessage) -> None:
        heard.append(str(message.message))

    await connection.execute(TELL)
    connection.add_log_listener(hear)
    await work
    await connection.execute("set auto_explain.log_min_duration = -1")  # all was told before this
    connection.remove_log_listener(hear)
    plans = [json.loads(text[text.index("{") :]) for text in heard if "plan:" in text]
    return [node for plan in plans for node in nodes_of(plan["Plan"])]


def touched_by(node: Mapping[str, Any]) -> int:
    """How many pages a step touched, with what is below it."""
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


def nodes_of(node: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A step of a plan, and all that are below it."""
    yield dict(node)
    for child in node.get("Plans", ()):
        yield from nodes_of(child)
