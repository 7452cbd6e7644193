"""Contradictions between settings that are valid by themselves.

Owns the rules between settings, each with the keys that it rests on. Promises that a rule is
applied only if all its keys are known: the default that replaces an invalid value contradicts
nothing. Known limit: rules that need the plugins are checked when the plugins are loaded.
"""

from collections.abc import Callable, Iterator
from itertools import combinations

from inboxd.settings.admin import Admin
from inboxd.settings.admin_contradictions import in_admin
from inboxd.settings.broker_contradictions import in_brokers
from inboxd.settings.inbound import InboundHttp
from inboxd.settings.inbound_contradictions import in_webhooks
from inboxd.settings.outbound_contradictions import in_targets
from inboxd.settings.sections import Settings
from inboxd.settings.telemetry import Http
from inboxd.settings.values import format_size, is_loopback

_MAX_HEARTBEAT_SHARE = 4

_Rule = Callable[[Settings], Iterator[str]]
_RULES: list[tuple[tuple[str, ...], _Rule]] = []


def contradictions(settings: Settings) -> Iterator[str]:
    """Yield every contradiction, with the places of its values."""
    for keys, rule in _RULES:
        if all(settings.knows(*key.split(".")) for key in keys):
            sources = dict.fromkeys(settings.source_of(key) for key in keys)
            place = ", ".join(each for each in sources if each != "default")
            yield from (f"{place}: {found}" if place else found for found in rule(settings))
    yield from in_admin(settings)
    yield from in_webhooks(settings)
    yield from in_targets(settings)
    yield from in_brokers(settings)


def _rests_on(*keys: str) -> Callable[[_Rule], _Rule]:
    def note(rule: _Rule) -> _Rule:
        _RULES.append((keys, rule))
        return rule

    return note


@_rests_on("worker.heartbeat_interval", "worker.lease")
def _heartbeat_fits_lease(settings: Settings) -> Iterator[str]:
    worker = settings.worker
    if worker.heartbeat_interval * _MAX_HEARTBEAT_SHARE > worker.lease:
        yield "[worker]: heartbeat_interval must be at most a quarter of lease"


@_rests_on("endpoints")
def _endpoints_are_whole(settings: Settings) -> Iterator[str]:
    for name, endpoint in settings.endpoints.items():
        for setting in ("url", "types", "secret_file"):
            if not getattr(endpoint, setting):
                yield f"[endpoints.{name}]: {setting} is missing"


@_rests_on("database.tls_cert", "database.tls_key")
def _certificate_has_its_key(settings: Settings) -> Iterator[str]:
    if (settings.database.tls_cert is None) != (settings.database.tls_key is None):
        yield "[database]: tls_cert and tls_key belong together: set both or neither"


@_rests_on("database.tls_cert", "database.tls_ca")
def _certificate_has_its_authorities(settings: Settings) -> Iterator[str]:
    if settings.database.tls_cert is not None and settings.database.tls_ca is None:
        yield "[database]: tls_cert needs tls_ca: the certificate is sent only to a verified server"


@_rests_on("http.host", "http.allow_remote")
def _loopback_unless_allowed(settings: Settings) -> Iterator[str]:
    http = settings.http
    if not (http.allow_remote or is_loopback(http.host)):
        yield (
            f"[http]: host {http.host!r} can be reached from other machines; "
            "use 127.0.0.1, or set allow_remote = true behind a firewall"
        )


@_rests_on("inbound.http.host", "inbound.http.allow_remote", "inbound.http.certificate")
def _loopback_unless_encrypted(settings: Settings) -> Iterator[str]:
    http = settings.inbound.http
    if not (http.allow_remote or http.certificate or is_loopback(http.host)):
        yield (
            f"[inbound.http]: host {http.host!r} can be reached from other machines, and nothing "
            "is encrypted; use 127.0.0.1 with a proxy that terminates TLS, set certificate "
            "and private_key, or set allow_remote = true where only such a proxy reaches it"
        )


@_rests_on("inbound.http.certificate", "inbound.http.private_key")
def _listener_has_its_key(settings: Settings) -> Iterator[str]:
    http = settings.inbound.http
    if (http.certificate is None) != (http.private_key is None):
        yield "[inbound.http]: certificate and private_key belong together: set both or neither"


@_rests_on("inbound.http.rate_per_address", "inbound.http.burst_per_address")
def _bursts_have_a_rate(settings: Settings) -> Iterator[str]:
    http = settings.inbound.http
    if http.burst_per_address is not None and http.rate_per_address is None:
        yield "[inbound.http]: burst_per_address needs rate_per_address, or it limits nothing"


@_rests_on("inbound.spool.after", "inbound.http.answer_within")
def _spool_answers_in_time(settings: Settings) -> Iterator[str]:
    spool = settings.inbound.spool
    if spool.path is not None and spool.after >= settings.inbound.http.answer_within:
        yield (
            "[inbound.spool]: after must be less than inbound.http.answer_within, or requests "
            "time out before they are spooled"
        )


@_rests_on("queues")
def _key_rates_have_lines(settings: Settings) -> Iterator[str]:
    for name, queue in settings.queues.items():
        if queue.key_rate is not None and queue.key_concurrency > 1:
            yield (
                f"[queues.{name}]: key_rate needs key_concurrency = 1, since the commands of a key "
                "wait for the first of them; leave out key_rate or key_concurrency"
            )


@_rests_on("inbound.spool.quota", "inbound.spool.segment_size")
def _quota_holds_segments(settings: Settings) -> Iterator[str]:
    spool = settings.inbound.spool
    if spool.quota < 2 * spool.segment_size:
        yield (
            f"[inbound.spool]: quota ({format_size(spool.quota)}) must be at least twice "
            f"segment_size ({format_size(spool.segment_size)}), since a file is deleted only when "
            f"all of it is drained: set quota to {format_size(2 * spool.segment_size)} or more, or "
            "lower segment_size"
        )


@_rests_on("http.port", "http.enabled", "inbound.http", "admin.port", "admin.enabled")
def _ports_differ(settings: Settings) -> Iterator[str]:
    http, inbound, admin = settings.http, settings.inbound.http, settings.admin
    served: dict[str, tuple[Http | InboundHttp | Admin, str]] = {
        "http.port": (http, "metrics"),
        "inbound.http.port": (inbound, "webhooks"),
        "admin.port": (admin, "the screens"),
    }
    ports = [(key, each.port, what) for key, (each, what) in served.items() if each.enabled]
    for (one, port, first), (other, same, second) in combinations(ports, 2):
        if port == same != 0:
            yield (
                f"{one} and {other} are both {port}: {first} and {second} need different ports; "
                "change one"
            )


@_rests_on("events.timeout", "database.idle_in_transaction_timeout")
def _handlers_end_before_their_page(settings: Settings) -> Iterator[str]:
    if settings.events.timeout >= settings.database.idle_in_transaction_timeout:
        yield (
            "events.timeout must be shorter than database.idle_in_transaction_timeout, "
            "or the server ends the page before the handler's time is up"
        )


@_rests_on("database.pool_size", "events.chunk_concurrency")
def _chunks_leave_a_connection(settings: Settings) -> Iterator[str]:
    connections, chunks = settings.database.pool_size, settings.events.chunk_concurrency
    if connections <= chunks:
        yield (
            f"database.pool_size ({connections}) must be larger than events.chunk_concurrency "
            f"({chunks}), or chunks that run for long leave no connection to claim and settle "
            "anything else; raise database.pool_size, or lower events.chunk_concurrency"
        )


@_rests_on("database.transaction_pooler", "wakeups.mode")
def _pooler_passes_nothing_on(settings: Settings) -> Iterator[str]:
    if settings.database.transaction_pooler and settings.wakeups.mode != "off":
        yield (
            'database.transaction_pooler needs wakeups.mode = "off": a pooler in transaction '
            "mode cannot pass notifications on"
        )


@_rests_on("history.events", "history.commands")
def _types_go_with_their_tables(settings: Settings) -> Iterator[str]:
    tables = (settings.history.events, settings.history.commands)
    if None in tables:
        return
    longest = max(filter(None, tables))
    for name, one in settings.types.items():
        if one.retention is not None and one.retention > longest:
            yield (
                f"types.{name}.retention is longer than history.events and history.commands: "
                "history is dropped by whole days, so a type cannot be kept longer; raise one of "
                f"them (the longer is {longest.days} days), or set history.export"
            )
