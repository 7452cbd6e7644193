"""What a broker's answer means for the messages of a batch.

Promises that whatever a broker may have written is never a refusal; that only what would be refused
again, however often it is published, is refused for good; and that a message is blamed only if it
was alone in its batch.
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
    """On a batch."""

    CONFIRMED = auto()
    REPEATED = auto()
    """It was written at an earlier attempt."""
    ELSEWHERE = auto()
    """This broker does not have its partition, and wrote nothing."""
    AGAIN = auto()
    """It may be written, or not."""
    SPLIT = auto()
    """One of its messages is refused, or all of them are too large together."""
    REFUSED = auto()
    """Its topic is."""
    FENCED = auto()
    """The broker takes nothing more of this producer."""


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
    """Of an error code of Kafka."""
    if code == _INVALID_RECORD:
        return BatchVerdict.SPLIT
    return _VERDICTS.get(errors.for_code(code), BatchVerdict.AGAIN)


def meaning(code: int) -> str:
    """An error code in words."""
    if code == _INVALID_RECORD:
        return "INVALID_RECORD"
    return f"{errors.for_code(code).message} ({code})"


def is_too_large(code: int) -> bool:
    """Whether a batch was refused for its size."""
    return code in (TOO_LARGE, _ALL_TOO_LARGE)


def is_valid(topic: str) -> bool:
    """Whether a Kafka topic may have this name."""
    return _VALID.fullmatch(topic) is not None and topic not in (".", "..")


def refused_topic(topic: str, error: type[Exception]) -> MessageRefused:
    """Why nothing can be published to a Kafka topic."""
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
    """Why one message of this many bytes is refused for good."""
    advice = "The Kafka topic's settings say what it takes; one that is compacted wants keys."
    if is_too_large(code):
        advice = "Raise max.message.bytes of the Kafka topic, or emit smaller events."
    return MessageRefused(
        f"the Kafka topic {topic!r} does not take this message of {size} bytes: {meaning(code)}. "
        f"{advice}",
        for_good=True,
    )
