"""Turns a delivery of NATS into a message."""

from inboxd.brokers.contract import IncomingMessage, LeftOutBody
from inboxd.brokers.nats.protocol import headers_of


def message(
    stream: str,
    position: int,
    identity: str,
    *,
    subject: str,
    block: bytes | None,
    content: tuple[bytes, LeftOutBody | None],
    sent_at: float | None,
    token: object = None,
) -> IncomingMessage:
    """block: the headers as received; content: the result of `kept`."""
    headers = headers_of(block)
    body, left_out = content
    return IncomingMessage(
        stream=stream,
        position=position,
        body=body,
        identity=identity,
        sent_to=subject,
        content_type=headers.get("content-type"),
        headers=headers,
        id=headers.get("nats-msg-id"),
        sent_at=sent_at,
        token=token,
        left_out=left_out,
    )
