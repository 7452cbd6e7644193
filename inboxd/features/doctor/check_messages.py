"""`inboxd check`, sources of messages: whether a worker can start with each."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from inboxd.errors import UsageError
from inboxd.inbound.messages.compiled import CompiledMessageSource
from inboxd.operations.doctor.finding import Finding, Verdict

if TYPE_CHECKING:
    from inboxd.settings import MessageSource, Settings


def judge(settings: "Settings") -> Iterator[Finding]:
    for name, source in settings.inbound.messages.items():
        broker = settings.brokers.get(source.broker)
        known = settings.knows("inbound", "messages", name)
        if known and broker is not None and settings.knows("brokers", source.broker):
            yield _compiled(name, broker.kind, source)


def _compiled(name: str, kind: str, source: "MessageSource") -> Finding:
    subject = f"messages: {name}"
    try:
        CompiledMessageSource(name, kind, source)
    except UsageError as error:
        remedy = f"correct [inbound.messages.{name}]: workers do not start until then"
        return Finding(subject, Verdict.CRITICAL, str(error), remedy)
    others = (source.nats_stream, source.rabbitmq_queue, source.rabbitmq_stream)
    streams = source.kafka_topics or tuple(filter(None, others))
    types = source.type or source.type_from or "the CloudEvents'"
    found = f"{kind} {', '.join(streams)}; type: {types}"
    return Finding(subject, Verdict.OK, found)
