"""Requests to JetStream's API: streams and consumers, for relays and sources."""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from nats.errors import Error, NoRespondersError

from inboxd.brokers.nats.connection import NatsConnection, cause_of, said

LIMITS, INTEREST, WORK_QUEUE = "limits", "interest", "workqueue"
_NOT_FOUND = 404
# JetStream's error number: it is not enabled for the account.
_NOT_ENABLED = 10039
# JetStream deletes a consumer of `hold_interest` after this time, if this process ends before
# deleting it.
_HELD_NANOSECONDS = 300 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsStream:
    name: str
    created: str
    """Time of creation as the server writes it: another stream of its name has another."""
    retention: str
    first: int
    """The position of its first message, or of the next one if it is empty."""
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsDurable:
    created: str
    description: str
    subjects: tuple[str, ...]
    """Subjects whose messages it delivers; empty: all."""
    acknowledged: int
    """Number of the last delivery up to which all are acknowledged."""
    waiting: int
    """The number of messages that were not delivered yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsKept:
    subject: str
    headers: bytes | None
    body: bytes
    sent_at: float


async def stream_of(connection: NatsConnection, name: str) -> NatsStream | None:
    """None: there is no such stream. Raises BrokerUnavailable."""
    answer = await _ask(connection, f"STREAM.INFO.{name}")
    if answer is None:
        return None
    state = answer["state"]
    return NatsStream(
        name=name,
        created=answer["created"],
        retention=answer["config"].get("retention", LIMITS),
        first=max(1, state["first_seq"]),
        last=state["last_seq"],
    )


async def durable_of(connection: NatsConnection, stream: str, name: str) -> NatsDurable | None:
    """None: there is no such consumer. Raises BrokerUnavailable."""
    answer = await _ask(connection, f"CONSUMER.INFO.{stream}.{name}")
    return None if answer is None else _durable(answer)


async def message_at(connection: NatsConnection, stream: str, position: int) -> NatsKept | None:
    """None: the stream has no message there. Raises BrokerUnavailable."""
    answer = await _ask(connection, f"STREAM.MSG.GET.{stream}", {"seq": position})
    if answer is None:
        return None
    found = answer["message"]
    headers = found.get("hdrs")
    return NatsKept(
        subject=found["subject"],
        headers=None if headers is None else b64decode(headers),
        body=b64decode(found.get("data", "")),
        sent_at=datetime.fromisoformat(found["time"]).timestamp(),
    )


async def make_durable(
    connection: NatsConnection, stream: str, config: Mapping[str, Any]
) -> NatsDurable:
    """Make a durable consumer, or change its description. Raises BrokerUnavailable."""
    answer = await _ask(
        connection,
        f"CONSUMER.DURABLE.CREATE.{stream}.{config['durable_name']}",
        {"stream_name": stream, "config": config},
    )
    if answer is None:
        raise connection.unavailable(f"stream {stream} is gone.")
    return _durable(answer)


async def hold_interest(connection: NatsConnection, stream: str, config: Mapping[str, Any]) -> str:
    """Make a temporary consumer, so that the stream keeps new messages; returns its name."""
    answer = await _ask(
        connection,
        f"CONSUMER.CREATE.{stream}",
        {"stream_name": stream, "config": {**config, "inactive_threshold": _HELD_NANOSECONDS}},
    )
    if answer is None:
        raise connection.unavailable(f"stream {stream} is gone.")
    return str(answer["name"])


async def delete_consumer(connection: NatsConnection, stream: str, name: str) -> None:
    """Delete a consumer, if it exists. Raises BrokerUnavailable."""
    await _ask(connection, f"CONSUMER.DELETE.{stream}.{name}")


def _durable(answer: Mapping[str, Any]) -> NatsDurable:
    config = answer["config"]
    one = config.get("filter_subject")
    return NatsDurable(
        created=answer["created"],
        description=config.get("description", ""),
        subjects=tuple(config.get("filter_subjects") or [*filter(None, [one])]),
        acknowledged=answer["ack_floor"]["consumer_seq"],
        waiting=answer["num_pending"],
    )


async def stream_that_takes(connection: NatsConnection, subject: str) -> str | None:
    """None: no stream does, or the account has no JetStream. Raises BrokerUnavailable."""
    answer = await _ask(connection, "STREAM.NAMES", {"subject": subject}, absent=_NOT_ENABLED)
    return next(iter((answer or {}).get("streams") or ()), None)


async def _ask(
    connection: NatsConnection,
    what: str,
    body: Mapping[str, Any] | None = None,
    *,
    absent: int = 0,
) -> dict[str, Any] | None:
    """None: not found. absent: an error number that means the same. Raises BrokerUnavailable."""
    try:
        data = await connection.ask(f"$JS.API.{what}", b"" if body is None else orjson.dumps(body))
    except NoRespondersError as error:
        raise connection.unavailable(
            "JetStream does not answer: enable it on the server (-js) and for this user, or wait "
            "until it has started."
        ) from error
    except (Error, OSError) as error:
        cause = cause_of(connection.trouble or error)
        raise connection.unavailable(f"JetStream does not answer to {what} ({cause}).") from error
    answer: dict[str, Any] = orjson.loads(data)
    problem = answer.get("error")
    if problem is None:
        return answer
    if problem.get("code") == _NOT_FOUND or problem.get("err_code") == absent:
        return None
    raise connection.unavailable(f"JetStream refuses {what}: {said(problem)}.")
