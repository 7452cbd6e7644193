"""Reads when the listener's certificate ends, and checks its key, but not the trust of senders."""

import ssl
from datetime import UTC, datetime
from pathlib import Path


def expires_at(certificate: Path, private_key: Path) -> datetime:
    """Raises OSError; ssl.SSLError also for an expired certificate."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, private_key, password=_no_password)
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname = False
    # The certificate is its own trust anchor, so that only its dates are checked.
    asking.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    asking.load_verify_locations(certificate)
    found = _shown(serving, asking)
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(found["notAfter"])), UTC)


def _shown(serving: ssl.SSLContext, asking: ssl.SSLContext) -> "ssl._PeerCertRetDictType":
    """Shake hands in memory: only a client of the standard library can read a certificate."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(there, back, server_side=True)
    client = asking.wrap_bio(back, there)
    for _ in range(10):  # a handshake needs fewer
        done = True
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                done = False
        if done:
            break
    found = client.getpeercert()
    if not found:
        raise ssl.SSLError("the handshake did not complete")
    return found


def _no_password() -> str:
    raise ssl.SSLError("its private key has a password; use a key without one")
