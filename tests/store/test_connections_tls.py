"""TLS to the server: encrypted, and only with a certificate of the trusted authority.

A real server has a certificate for `localhost` by an authority made for this test. The embedded
PostgreSQL has no TLS, so the server is the one given for the run, or the newest of Debian's
packages.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from inboxd.embedded import Server
from inboxd.errors import DatabaseError
from inboxd.settings import Database as Settings
from inboxd.store.session import connect
from tests.support import Database, Worker, create_migrated, eventually, temporary_server
from tests.support.packaged import packaged
from tests.support.rows import emit

pytestmark = pytest.mark.anyio

_SECTIONS = """
[req]
distinguished_name = name
prompt = no
[name]
CN = {name}
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
subjectAltName = DNS:localhost
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[client]
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""
# Every role needs TLS; the role `certified` also needs its certificate.
_RULES = "hostssl all certified all cert\nhostssl all all all trust\n"
_SPEAKS_TLS = b"could not load server certificate file"


@dataclass(frozen=True)
class Paper:
    """A certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """An authority that signs certificates."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self.own = self._paper(name)
        self._openssl(
            *("req", "-x509", "-config", self._sections(name), "-extensions", "authority"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-keyout", self.own.key, "-out", self.own.certificate),
        )

    def vouch(self, name: str, what: str) -> Paper:
        """Sign a certificate for a `server` or a `client` of this name."""
        paper, asked = self._paper(name), self._folder / f"{name}.csr"
        sections = self._sections(name)
        self._openssl(
            *("req", "-new", "-config", sections, "-nodes", "-keyout", paper.key, "-out", asked),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
        )
        self._openssl(
            *("x509", "-req", "-in", asked, "-CA", self.own.certificate, "-CAkey", self.own.key),
            *("-CAcreateserial", "-extfile", sections, "-extensions", what, "-days", "2"),
            *("-out", paper.certificate),
        )
        return paper

    def _paper(self, name: str) -> Paper:
        return Paper(self._folder / f"{name}.pem", self._folder / f"{name}.key")

    def _sections(self, name: str) -> Path:
        file = self._folder / f"{name}.cnf"
        file.write_text(_SECTIONS.format(name=name))
        return file

    def _openssl(self, *words: str | Path) -> None:
        ran = subprocess.run(["openssl", *words], capture_output=True, text=True, check=False)  # noqa: S607
        assert ran.returncode == 0, ran.stderr


@dataclass(frozen=True)
class Secured:
    """A migrated database on a server that refuses connections without TLS."""

    database: Database
    ours: Authority
    theirs: Authority
    client: Paper

    def settings(self, host: str, query: str = "", user: str = "postgres", **tls: Path) -> Settings:
        """Settings of the daemon; in `query`, `ours` and `theirs` become paths of certificates."""
        parts = urlsplit(self.database.dsn)
        query = query.replace("ours", str(self.ours.own.certificate))
        query = query.replace("theirs", str(self.theirs.own.certificate))
        way = parts._replace(netloc=f"{user}@{host}:{parts.port}", query=query)
        return Settings.model_validate({"dsn": urlunsplit(way), **tls})


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A server for the tests of this module."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: apt install openssl")
    folder = tmp_path_factory.mktemp("papers")
    ours, theirs = Authority(folder, "ours"), Authority(folder, "theirs")
    with temporary_server(binaries=packaged(_speaks_tls, "TLS")) as server:
        database = create_migrated(server)
        with server.outage():
            _secure(server, ours, ours.vouch("server", "server"))
        yield Secured(database, ours, theirs, ours.vouch("certified", "client"))


def _speaks_tls(programs: Path) -> bool:
    return _SPEAKS_TLS in (programs / "postgres").read_bytes()


def _secure(server: Server, ours: Authority, paper: Paper) -> None:
    """Set up TLS on a stopped server, with copies of the files that its user owns."""
    cluster = server.home / "cluster"
    owner = cluster.stat()
    for source, name in (
        (paper.certificate, "server.crt"),
        (paper.key, "server.key"),
        (ours.own.certificate, "root.crt"),
    ):
        placed = Path(shutil.copy(source, cluster / name))
        placed.chmod(0o600)
        os.chown(placed, owner.st_uid, owner.st_gid)
    with (cluster / "postgresql.conf").open("a") as settings:
        settings.write("\nssl = on\nssl_ca_file = 'root.crt'\n")
    (cluster / "pg_hba.conf").write_text(_RULES)


async def _session(settings: Settings) -> tuple[bool, str | None]:
    """Whether the session is encrypted, and the client's name by its certificate."""
    session = await connect(settings, "test")
    try:
        row = await session.connection.fetchrow(
            "select ssl, client_dn from pg_stat_ssl where pid = pg_backend_pid()"
        )
    finally:
        session.connection.terminate()
    assert row is not None
    return row["ssl"], row["client_dn"]


async def test_session_with_matching_settings_is_encrypted(secured: Secured) -> None:
    ca = secured.ours.own.certificate
    for settings in (
        secured.settings("127.0.0.1", "sslmode=require"),  # with a certificate for any name
        secured.settings("localhost", tls_ca=ca),
        secured.settings("localhost", "sslmode=verify-full&sslrootcert=ours"),
        secured.settings("127.0.0.1", "sslmode=verify-ca&sslrootcert=ours"),
    ):
        assert await _session(settings) == (True, None)


@pytest.mark.parametrize(
    ("host", "query", "tls", "problem"),
    [
        ("localhost", "", "theirs", "certificate verify failed.*database.tls_ca"),
        ("localhost", "sslmode=verify-full&sslrootcert=theirs", None, "certificate verify failed"),
        ("localhost", "sslmode=verify-ca&sslrootcert=theirs", None, "certificate verify failed"),
        ("127.0.0.1", "", "ours", "127.0.0.1.*the one in its certificate"),
        ("127.0.0.1", "sslmode=verify-full&sslrootcert=ours", None, "127.0.0.1"),
        ("localhost", "sslmode=disable", None, "no encryption"),
    ],
)
async def test_server_that_does_not_match_is_refused(
    secured: Secured, host: str, query: str, tls: str | None, problem: str
) -> None:
    """The authority or the name is wrong, or there is no TLS."""
    given = {} if tls is None else {"tls_ca": getattr(secured, tls).own.certificate}
    with pytest.raises(DatabaseError, match=problem):
        await _session(secured.settings(host, query, **given))


async def test_server_without_tls_is_refused(secured: Secured, database: Database) -> None:
    for tls in ({"tls_ca": secured.ours.own.certificate}, {}):
        dsn = database.dsn if tls else f"{database.dsn}?sslmode=require"
        with pytest.raises(DatabaseError, match=r"SSL.*enable TLS on it \(ssl = on\)"):
            await _session(Settings.model_validate({"dsn": dsn, **tls}))


async def test_the_daemon_shows_its_own_certificate(secured: Secured) -> None:
    await secured.database.execute("create role certified login")
    ca = secured.ours.own.certificate
    with pytest.raises(DatabaseError, match="certificate"):
        await _session(secured.settings("localhost", user="certified", tls_ca=ca))
    own: dict[str, Any] = {"tls_cert": secured.client.certificate, "tls_key": secured.client.key}
    shown = await _session(secured.settings("localhost", user="certified", tls_ca=ca, **own))
    assert shown == (True, "/CN=certified")


async def test_each_session_of_a_worker_is_encrypted(secured: Secured, tmp_path: Path) -> None:
    settings = secured.settings("localhost")
    ca = {"tls_ca": str(secured.ours.own.certificate)}
    worker = Worker(
        tmp_path,
        settings.dsn.get_secret_value(),
        {"database": {"dsn": settings.dsn.get_secret_value(), **ca}},
    )
    try:
        await worker.ready()
        await emit(secured.database, 3, "test.noop")

        async def settled() -> bool:
            done = "select count(*) from inboxd.events_history"
            return bool(await secured.database.fetchval(done) == 3)

        await eventually(settled)
        sessions = await secured.database.fetch(
            "select application_name, ssl from pg_stat_activity join pg_stat_ssl using (pid)"
            " where application_name like 'inboxd %'"
        )
        assert {row["application_name"] for row in sessions} >= {"inboxd daemon", "inboxd listener"}
        assert {row["ssl"] for row in sessions} == {True}
        assert await worker.stop() == 0
    finally:
        worker.kill()
