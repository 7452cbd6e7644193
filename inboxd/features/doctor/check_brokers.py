"""`inboxd check`, brokers: whether each can be reached; nothing is published or consumed.

Known limit: of Kafka's rights it needs DESCRIBE; that the user may READ the topic and the group is
first seen by the workers.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from inboxd.brokers import kinds
from inboxd.errors import InboxdError, PluginError, SettingsError, UsageError
from inboxd.inbound.messages.verifying import LOOKING_SECONDS
from inboxd.model.outcome import explain
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.settings.broker_contradictions import in_broker, in_streams
from inboxd.settings.brokers import BUILT_IN
from inboxd.settings.values import is_loopback

if TYPE_CHECKING:
    from inboxd.settings import Broker, MessageSource, Settings

_UNTIL_THEN = "until then workers neither publish to it nor consume from it"
_GRACE_SECONDS = 2.0  # beyond connect_timeout: a library may measure it differently
_PLAIN = ("nats", "rabbitmq")  # kinds that send passwords unencrypted
_LEAST_HIDDEN = 4  # characters: a shorter secret would be masked inside other words


async def judge(settings: "Settings") -> list[Finding]:
    relayed = {each.broker for each in settings.relays.values()}
    sources = settings.inbound.messages
    used = relayed | {each.broker for each in sources.values()}
    all_known = settings.knows("relays") and settings.knows("inbound", "messages")
    findings: list[Finding] = []
    for name, broker in settings.brokers.items():
        if not settings.knows("brokers", name) or any(in_broker(name, broker)):
            continue  # reported with the settings
        if name in used:
            findings += _exposed(name, broker)
            with suppress(UsageError, PluginError):  # reported with the relay or the source
                if name in relayed:
                    findings.append(await _published_to(name, broker))
                for source, its in sources.items():
                    known = settings.knows("inbound", "messages", source)
                    if its.broker == name and known and not any(in_streams(settings, its)):
                        findings.append(await _read(name, broker, source, its))
        elif all_known:
            findings.append(
                Finding(
                    f"broker: {name}",
                    Verdict.NOTICE,
                    "no relay and no source of messages uses it",
                    f"name it in a relay or source, or remove [brokers.{name}]",
                )
            )
    return [*dict.fromkeys(findings)]  # an unreachable broker once


def _exposed(name: str, broker: "Broker") -> list[Finding]:
    login = broker.kind in _PLAIN and broker.user is not None and not broker.tls
    if not login or all(
        is_loopback(each.rpartition(":")[0].strip("[]")) for each in broker.servers
    ):
        return []
    found = "the password is sent unencrypted to another machine"
    remedy = f"set tls = true in [brokers.{name}]; if the network already encrypts, do nothing"
    return [Finding(f"broker: {name}", Verdict.WARNING, found, remedy)]


async def _published_to(name: str, broker: "Broker") -> Finding:
    opens = kinds.publisher_of(broker.kind)

    async def attempt() -> str:
        await (await opens(name, broker)).close()
        return f"a connection was opened{', encrypted' if broker.tls else ''}"

    return await _attempted(name, broker, attempt, _GRACE_SECONDS)


async def _read(name: str, broker: "Broker", source: str, settings: "MessageSource") -> Finding:
    look_at = kinds.look_of(broker.kind)

    async def attempt() -> str:
        seen = await look_at(name, broker, source, settings, {}, 0)
        streams = ", ".join(sorted({each.stream.partition("/")[0] for each in seen}))
        return f"source {source!r} can read {streams}{', encrypted' if broker.tls else ''}"

    return await _attempted(name, broker, attempt, LOOKING_SECONDS)


async def _attempted(
    name: str, broker: "Broker", attempt: Callable[[], Awaitable[str]], grace: float
) -> Finding:
    """Report what an attempt found, or its error. grace: seconds beyond `connect_timeout`."""
    subject, remedy = f"broker: {name}", f"start the broker, or correct [brokers.{name}]"
    # Each server in turn may take the whole connect_timeout.
    limit = broker.connect_timeout.total_seconds() * max(1, len(broker.servers)) + grace
    try:
        with anyio.fail_after(limit):
            found = await attempt()
    except SettingsError as error:
        return Finding(subject, Verdict.CRITICAL, str(error), f"correct it: {_UNTIL_THEN}")
    except TimeoutError:
        told = f"no answer within {limit:g} s"
    except InboxdError as error:
        told = str(error)
        if broker.kind in BUILT_IN:  # their errors name the remedy
            remedy = f"correct this error: {_UNTIL_THEN}"
    except Exception as error:  # noqa: BLE001 - a plugin's own
        told = explain(error).error
    else:
        where = f" at {', '.join(broker.servers)}" if broker.servers else ""
        return Finding(subject, Verdict.OK, f"{broker.kind}{where}: {found}")
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
