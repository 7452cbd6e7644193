"""Until when a certificate of the listener counts, and whether its key fits.

Known limit: whether anybody trusts it is seen by senders only.
"""

import ssl
from datetime import UTC, datetime
from pathlib import Path


def expires_at(certificate: Path, private_key: Path) -> datetime:
    """When it ends. Raises OSError or ssl.SSLError; one that has ended raises the latter, too."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, private_key, password=_no_password)
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname = False
    # It vouches for itself: only its dates are asked.
    asking.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    asking.load_verify_locations(certificate)
    found = _shown(serving, asking)
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(found["notAfter"])), UTC)


def _shown(serving: ssl.SSLContext, asking: ssl.SSLContext) -> "ssl._PeerCertRetDictType":
    """What a client sees, in memory: the standard library reads a certificate nowhere else."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(there, back, server_side=True)
    client = asking.wrap_bio(back, there)
    for _ in range(10):  # a handshake has fewer turns
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
        raise ssl.SSLError("the handshake did not end")
    return found


def _no_password() -> str:
    raise ssl.SSLError("its private key has a password, which nobody could type")
