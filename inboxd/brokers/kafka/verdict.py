"""Interprets a broker's answer to a batch.

A batch that might be written is never refused; a message is refused for good only if it was alone
in its batch, and every attempt would be refused.
"""

import re
from enum import Enum, auto

from aiokafka import errors

from inboxd.errors import MessageRefused

_VALID = re.compile(r"[a-zA-Z0-9._-]{1,249}")
TOO_LARGE = 10
_ALL_TOO_LARGE = 18
_INVALID_RECORD = 87  # KIP-467; aiokafka does not know it


class BatchVerdict(Enum):
    CONFIRMED = auto()
    REPEATED = auto()
    """An earlier attempt wrote it."""
    ELSEWHERE = auto()
    """This broker does not lead its partition, and wrote nothing."""
    AGAIN = auto()
    """Whether it is written is not known."""
    SPLIT = auto()
    """One of its messages is refused, or all are too large together."""
    REFUSED = auto()
    """Its Kafka topic is refused."""
    FENCED = auto()
    """The broker accepts nothing more from this producer."""


_VERDICTS = {
    errors.NoError: BatchVerdict.CONFIRMED,
    errors.DuplicateSequenceNumber: BatchVerdict.REPEATED,
    errors.NotLeaderForPartitionError: BatchVerdict.ELSEWHERE,
    errors.LeaderNotAvailableError: BatchVerdict.ELSEWHERE,
    errors.UnknownTopicOrPartitionError: BatchVerdict.ELSEWHERE,
    errors.MessageSizeTooLargeError: BatchVerdict.SPLIT,
    errors.RecordListTooLargeError: BatchVerdict.SPLIT,
    errors.InvalidTimestampError: BatchVerdict.SPLIT,
    errors.TopicAuthorizationFailedError: BatchVerdict.REFUSED,
    errors.InvalidTopicError: BatchVerdict.REFUSED,
    errors.OutOfOrderSequenceNumber: BatchVerdict.FENCED,
    errors.InvalidProducerEpoch: BatchVerdict.FENCED,
    errors.InvalidProducerIdMapping: BatchVerdict.FENCED,
    errors.UnknownProducerId: BatchVerdict.FENCED,
}


def verdict(code: int) -> BatchVerdict:
    if code == _INVALID_RECORD:
        return BatchVerdict.SPLIT
    return _VERDICTS.get(errors.for_code(code), BatchVerdict.AGAIN)


def meaning(code: int) -> str:
    if code == _INVALID_RECORD:
        return "INVALID_RECORD"
    return f"{errors.for_code(code).message} ({code})"


def is_too_large(code: int) -> bool:
    return code in (TOO_LARGE, _ALL_TOO_LARGE)


def is_valid(topic: str) -> bool:
    return _VALID.fullmatch(topic) is not None and topic not in (".", "..")


def refused_topic(topic: str, error: type[Exception]) -> MessageRefused:
    if error is errors.InvalidTopicError:
        return MessageRefused(
            f"{topic!r} is not a valid name of a Kafka topic: correct `to` of the relay.",
            for_good=True,
        )
    if error is errors.TopicAuthorizationFailedError:
        return MessageRefused(
            f"the Kafka topic {topic!r} may not be written to: grant the user WRITE and DESCRIBE."
        )
    if error is errors.UnknownTopicOrPartitionError:
        return MessageRefused(
            f"there is no Kafka topic {topic!r}: create it, or correct `to` of the relay.",
            unroutable=True,
        )
    return MessageRefused(f"the Kafka topic {topic!r} is not available: {error.__name__}.")


def refused_message(topic: str, code: int, size: int) -> MessageRefused:
    advice = "Check the settings of the Kafka topic; a compacted topic requires keys."
    if is_too_large(code):
        advice = "Raise max.message.bytes of the Kafka topic, or emit smaller events."
    return MessageRefused(
        f"the Kafka topic {topic!r} refuses this message of {size} bytes: {meaning(code)}. "
        f"{advice}",
        for_good=True,
    )
