"""Messages of a broker: as a consumer returns them, and as they are stored.

In a test: `incoming(position=1, body={"n": 1})` or `received(1)`.
"""

from typing import Any

import orjson

from inboxd.brokers.contract import IncomingMessage
from inboxd.model.lineage import uuid7
from inboxd.model.message import ReceivedMessage
from inboxd.model.receipt import ReceivedEvent

STREAM = "results"


def incoming(position: int | None = 1, body: object = None, **given: Any) -> IncomingMessage:
    """A message of a stream; its body is JSON, or bytes unchanged."""
    raw = body if isinstance(body, bytes) else orjson.dumps(body if body is not None else {})
    return IncomingMessage(**{"stream": STREAM, "position": position, "body": raw, **given})


def received(
    position: int | None, *events: ReceivedEvent, stream: str = STREAM, identity: str = "i-1"
) -> ReceivedMessage:
    """A message as it is stored; by default with one event whose number is the position."""
    body = orjson.dumps({"n": position})
    own = ReceivedEvent(uuid7(), "match.result", body.decode())
    return ReceivedMessage(stream, position, identity, body, [*(events or (own,))])
