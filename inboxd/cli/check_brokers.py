"""What `inboxd check` says of brokers: those that cannot be reached, or not with these settings.

Promises that nothing is published or consumed: a connection is opened as a relay opens it, and
closed. Known limit: so whether a source may read its stream or queue shows when it does.
*See:* `inboxd/brokers/kinds.py`, which opens; `inboxd/registry/relays.py` and
`inboxd/registry/message_sources.py`, which say that a kind cannot be used.
"""

from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from inboxd.brokers import kinds
from inboxd.errors import InboxdError, PluginError, SettingsError, UsageError
from inboxd.model.outcome import explain
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.settings.broker_contradictions import in_broker
from inboxd.settings.brokers import BUILT_IN
from inboxd.settings.values import is_loopback

if TYPE_CHECKING:
    from inboxd.settings import Broker, Settings

_GRACE = 2.0  # seconds beside those of the settings: a library may count its own way
_PLAIN = ("nats", "rabbitmq")  # kinds that send passwords as they are
_SHORTEST_HIDDEN = 4  # characters of a secret that is looked for: a shorter one is part of words


async def judge(settings: "Settings") -> list[Finding]:
    """All that is to be said of the brokers that are right as settings."""
    used = {each.broker for each in settings.relays.values()}
    used |= {each.broker for each in settings.inbound.messages.values()}
    all_known = settings.knows("relays") and settings.knows("inbound", "messages")
    findings: list[Finding] = []
    for name, broker in settings.brokers.items():
        if not settings.knows("brokers", name) or any(in_broker(name, broker)):
            continue  # said of the settings
        if name in used:
            findings += _exposed(name, broker)
            try:
                opens = kinds.publisher_of(broker.kind)
            except (UsageError, PluginError):
                continue  # said of the relay, or of the source
            else:
                findings.append(await _opened(name, broker, opens))
        elif all_known:
            findings.append(
                Finding(
                    f"broker: {name}",
                    Verdict.NOTICE,
                    "no relay and no source of messages has it",
                    f"name it in one of them, or take [brokers.{name}] out",
                )
            )
    return findings


def _exposed(name: str, broker: "Broker") -> list[Finding]:
    """Whether the password can be read on the way."""
    login = broker.kind in _PLAIN and broker.user is not None and not broker.tls
    if not login or all(
        is_loopback(each.rpartition(":")[0].strip("[]")) for each in broker.servers
    ):
        return []
    found = "the password is sent unencrypted to another machine"
    remedy = f"set tls = true in [brokers.{name}], unless the way is encrypted otherwise"
    return [Finding(f"broker: {name}", Verdict.WARNING, found, remedy)]


def _unusable(name: str, found: str) -> Finding:
    remedy = "correct it: no worker publishes with it, or consumes"
    return Finding(f"broker: {name}", Verdict.CRITICAL, found, remedy)


async def _opened(name: str, broker: "Broker", opens: kinds.OpenPublisher) -> Finding:
    """Whether a connection can be opened."""
    subject, remedy = f"broker: {name}", f"start the broker, or correct [brokers.{name}]"
    # A server that hangs gets all of its time before the next one is tried.
    limit = broker.connect_timeout.total_seconds() * max(1, len(broker.servers)) + _GRACE
    try:
        with anyio.fail_after(limit):
            publisher = await opens(name, broker)
            await publisher.close()
    except SettingsError as error:
        return _unusable(name, str(error))
    except TimeoutError:
        told = f"no connection within {limit:g} s"
    except InboxdError as error:
        told = str(error)
        if broker.kind in BUILT_IN:  # it says what to do
            remedy = "mend that: until then nothing is published to it, or consumed"
    except Exception as error:  # noqa: BLE001 - a plugin's own
        told = explain(error).error
    else:
        where = f" at {', '.join(broker.servers)}" if broker.servers else ""
        found = f"{broker.kind}{where}: a connection was opened"
        return Finding(subject, Verdict.OK, f"{found}, encrypted" if broker.tls else found)
    told = await to_thread.run_sync(_without_secret, told, broker)
    return Finding(subject, Verdict.CRITICAL, told, remedy)


def _without_secret(text: str, broker: "Broker") -> str:
    """One line, without the password, which a plugin's words may quote."""
    try:
        secret = broker.secret() or ""
    except SettingsError:
        secret = ""  # so nobody had it
    if len(secret) >= _SHORTEST_HIDDEN:
        text = text.replace(secret, "…")
    return " ".join(text.split())
