"""`inboxd check`, brokers: whether each can be reached with its settings.

Promises that nothing is published or consumed: it opens a connection as a relay does, and closes
it. Known limit: it does not see whether a source may read its stream or queue.
*See:* `inboxd/brokers/kinds.py`, which opens connections; `inboxd/registry/relays.py` and
`inboxd/registry/message_sources.py`, which report a kind that cannot be used.
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

_GRACE_SECONDS = 2.0  # beyond connect_timeout: a library may measure it differently
_PLAIN = ("nats", "rabbitmq")  # kinds that send passwords unencrypted
_LEAST_HIDDEN = 4  # characters: a shorter secret would be masked inside other words


async def judge(settings: "Settings") -> list[Finding]:
    """Return the findings about brokers whose settings are valid."""
    used = {each.broker for each in settings.relays.values()}
    used |= {each.broker for each in settings.inbound.messages.values()}
    all_known = settings.knows("relays") and settings.knows("inbound", "messages")
    findings: list[Finding] = []
    for name, broker in settings.brokers.items():
        if not settings.knows("brokers", name) or any(in_broker(name, broker)):
            continue  # reported with the settings
        if name in used:
            findings += _exposed(name, broker)
            try:
                opens = kinds.publisher_of(broker.kind)
            except (UsageError, PluginError):
                continue  # reported with the relay or the source
            else:
                findings.append(await _opened(name, broker, opens))
        elif all_known:
            findings.append(
                Finding(
                    f"broker: {name}",
                    Verdict.NOTICE,
                    "no relay and no source of messages uses it",
                    f"name it in a relay or source, or remove [brokers.{name}]",
                )
            )
    return findings


def _exposed(name: str, broker: "Broker") -> list[Finding]:
    """Warn if the password is sent unencrypted over a network."""
    login = broker.kind in _PLAIN and broker.user is not None and not broker.tls
    if not login or all(
        is_loopback(each.rpartition(":")[0].strip("[]")) for each in broker.servers
    ):
        return []
    found = "the password is sent unencrypted to another machine"
    remedy = f"set tls = true in [brokers.{name}]; if the network already encrypts, do nothing"
    return [Finding(f"broker: {name}", Verdict.WARNING, found, remedy)]


def _unusable(name: str, found: str) -> Finding:
    remedy = "correct it: until then workers neither publish to it nor consume from it"
    return Finding(f"broker: {name}", Verdict.CRITICAL, found, remedy)


async def _opened(name: str, broker: "Broker", opens: kinds.OpenPublisher) -> Finding:
    """Report whether a connection can be opened."""
    subject, remedy = f"broker: {name}", f"start the broker, or correct [brokers.{name}]"
    # Each server in turn may take the whole connect_timeout.
    limit = broker.connect_timeout.total_seconds() * max(1, len(broker.servers)) + _GRACE_SECONDS
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
        if broker.kind in BUILT_IN:  # their errors name the remedy
            remedy = (
                "correct this error: until then workers neither publish to it nor consume from it"
            )
    except Exception as error:  # noqa: BLE001 - a plugin's own
        told = explain(error).error
    else:
        where = f" at {', '.join(broker.servers)}" if broker.servers else ""
        found = f"{broker.kind}{where}: a connection was opened"
        return Finding(subject, Verdict.OK, f"{found}, encrypted" if broker.tls else found)
    told = await to_thread.run_sync(_without_secret, told, broker)
    return Finding(subject, Verdict.CRITICAL, told, remedy)


def _without_secret(text: str, broker: "Broker") -> str:
    """Return the text as one line, with the password masked: a plugin's error may quote it."""
    try:
        secret = broker.secret() or ""
    except SettingsError:
        secret = ""  # the secret could not be read, so no error quotes it
    if len(secret) >= _LEAST_HIDDEN:
        text = text.replace(secret, "…")
    return " ".join(text.split())
