"""`inboxd check`, protection: readable secret files, an unverified server, unmet requirements.

Known limit: it does not see the protection by a proxy or a network.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from inboxd.operations.doctor.finding import Finding, Verdict

if TYPE_CHECKING:
    from inboxd.settings import Database, Settings

# Values of sslmode with which the driver verifies the server's certificate.
_VERIFYING = ("verify-ca", "verify-full")
# Parameters that libpq obeys, or else refuses to connect; the driver does not implement them.
_NOT_IMPLEMENTED = {
    "channel_binding": ("PGCHANNELBINDING", "the driver has no channel binding"),
    "gssencmode": ("PGGSSENCMODE", "the driver does not encrypt by GSSAPI"),
}


def judge(settings: "Settings") -> Iterator[Finding]:
    from inboxd.settings.secret_files import open_to_others

    for path in open_to_others(settings):
        yield Finding(
            "secrets",
            Verdict.WARNING,
            f"{path} holds a secret, and every account of this machine may read it",
            f"chmod o-r {path} (in Kubernetes: defaultMode: 0440)",
        )
    if not settings.knows("database"):
        return
    if host := _unverified(settings.database):
        yield Finding(
            "database",
            Verdict.WARNING,
            f"the certificate of the server at {host} is not verified: another server could answer",
            "set database.tls_ca to the file of its authority, or sslmode=verify-full in the DSN; "
            "if the network is trusted, do nothing",
        )
    for name, reason in _unmet(settings.database):
        yield Finding(
            "database",
            Verdict.WARNING,
            f"{name}=require has no effect: {reason}",
            "remove it, and have the server's certificate verified instead: set database.tls_ca, "
            "or sslmode=verify-full in the DSN",
        )


def _unverified(database: "Database") -> str | None:
    from inboxd.settings.values import is_loopback

    parts = urlsplit(database.dsn.get_secret_value())
    query = parse_qs(parts.query)
    mode = _parameter(query, "sslmode", "PGSSLMODE")
    if database.tls_ca is not None or mode in _VERIFYING:
        return None
    named = parts.netloc.rpartition("@")[2] or query.get("host", [""])[-1]
    hosts = [_bare(each) for each in named.split(",")]
    away = (each for each in hosts if each and "/" not in each and not is_loopback(each))
    return next(away, None)


def _unmet(database: "Database") -> Iterator[tuple[str, str]]:
    query = parse_qs(urlsplit(database.dsn.get_secret_value()).query)
    for name, (variable, reason) in _NOT_IMPLEMENTED.items():
        if _parameter(query, name, variable) == "require":
            yield name, reason


def _parameter(query: Mapping[str, Sequence[str]], name: str, variable: str) -> str:
    """Return a parameter of the DSN, or else of the environment, like libpq."""
    return query.get(name, [os.environ.get(variable, "")])[-1]


def _bare(host: str) -> str:
    """Remove port and brackets, and decode slashes: %2Ftmp is a folder of sockets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].replace("%2F", "/").replace("%2f", "/")
