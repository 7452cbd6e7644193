"""The plans of statements as they ran, inside functions too: the server logs them (auto_explain).

    nodes = await told(connection, connection.execute("select inboxd.emit_event(...)"))

Promises: the plans have run with the session's own settings, and name the pages of each step.
Known limit: the session must be a superuser's; `auto_explain` stays loaded in it.
"""

import json
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any

import asyncpg

from inboxd.store.session import Session

# Makes a session log the plans of its statements, also of those inside functions.
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


async def told(session: Session, work: Awaitable[object]) -> list[dict[str, Any]]:
    """The nodes of all plans that ran for `work`; a plan's root has no "Parent Relationship"."""
    heard: list[str] = []

    def hear(_: object, message: asyncpg.PostgresLogMessage) -> None:
        heard.append(str(message.message))

    await session.connection.execute(TELL)
    session.connection.add_log_listener(hear)
    await work
    await session.connection.execute(
        "set auto_explain.log_min_duration = -1"
    )  # the log is complete now
    session.connection.remove_log_listener(hear)
    plans = [json.loads(text[text.index("{") :]) for text in heard if "plan:" in text]
    return [node for plan in plans for node in nodes_of(plan["Plan"])]


def touched_by(node: Mapping[str, Any]) -> int:
    """The number of pages that a step touched, including the steps below it."""
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


def nodes_of(node: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A step of a plan, and all steps below it."""
    yield dict(node)
    for child in node.get("Plans", ()):
        yield from nodes_of(child)
