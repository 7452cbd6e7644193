"""`inboxd check`, protection: readable secret files, and an unverified database server.

Known limit: it does not see what a proxy or a network protects.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from inboxd.operations.doctor.finding import Finding, Verdict

if TYPE_CHECKING:
    from inboxd.settings import Database, Settings

# Values of sslmode with which the driver verifies the server's certificate.
_VERIFYING = ("verify-ca", "verify-full")


def judge(settings: "Settings") -> Iterator[Finding]:
    """Yield findings about valid settings."""
    from inboxd.settings.secret_files import open_to_others

    for path in open_to_others(settings):
        yield Finding(
            "secrets",
            Verdict.WARNING,
            f"{path} holds a secret, and every account of this machine may read it",
            f"chmod o-r {path} (in Kubernetes: defaultMode: 0440)",
        )
    if settings.knows("database") and (host := _unverified(settings.database)):
        yield Finding(
            "database",
            Verdict.WARNING,
            f"the certificate of the server at {host} is not verified: another server could answer",
            "set database.tls_ca to the file of its authority, or sslmode=verify-full in the DSN; "
            "nothing, if the network is trusted",
        )


def _unverified(database: "Database") -> str | None:
    """Return the first remote host whose certificate is not verified."""
    from inboxd.settings.values import is_loopback

    parts = urlsplit(database.dsn.get_secret_value())
    query = parse_qs(parts.query)
    mode = query.get("sslmode", [os.environ.get("PGSSLMODE", "")])[-1]
    if database.tls_ca is not None or mode in _VERIFYING:
        return None
    named = parts.netloc.rpartition("@")[2] or query.get("host", [""])[-1]
    hosts = [_bare(each) for each in named.split(",")]
    away = (each for each in hosts if each and "/" not in each and not is_loopback(each))
    return next(away, None)


def _bare(host: str) -> str:
    """Remove port and brackets, and decode slashes: %2Ftmp is a folder of sockets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].replace("%2F", "/").replace("%2f", "/")
