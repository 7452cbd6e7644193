"""Check that this installation can read the sources of messages in the settings."""

from inboxd.brokers import kinds
from inboxd.registry.problems import noted
from inboxd.settings import Settings


def check_message_sources(settings: Settings, problems: list[str]) -> None:
    """Append the problems; the brokers of relays were checked with the relays."""
    relayed = {relay.broker for relay in settings.relays.values()}
    for name, source in settings.inbound.messages.items():
        known = settings.knows("inbound", "messages", name)
        broker = source.broker not in relayed and source.broker in settings.brokers
        if known and broker and settings.knows("brokers", source.broker):
            with noted(problems, f"[inbound.messages.{name}]"):
                kinds.consumer_of(settings.brokers[source.broker].kind)
