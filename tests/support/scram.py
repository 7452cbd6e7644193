"""The server's side of a SCRAM login (RFC 5802), for one user with one password.

server = ScramServer("sha256", "inboxd", "hunter2")
challenge = server.challenge(client_first)
signature = server.signature(client_final)  # None: the client does not know the password
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode

_ITERATIONS = 4096


class ScramServer:
    """One login. hash_name: `sha256` or `sha512`."""

    def __init__(self, hash_name: str, user: str, password: str) -> None:
        self._hash = hash_name
        self._user = user
        self._salt = secrets.token_bytes(16)
        self._salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), self._salt, _ITERATIONS)
        self._nonce = self._firsts = ""

    def challenge(self, client_first: bytes) -> bytes:
        """Answer a client's first message, which names the user."""
        header, _, bare = client_first.decode().partition(",,")
        assert header == "n", "without channel binding"
        given = dict(each.split("=", 1) for each in bare.split(","))
        if given["n"] != self._user:
            self._salted = secrets.token_bytes(32)  # no proof fits: unknown users are not told
        self._nonce = given["r"] + secrets.token_hex(16)
        challenge = f"r={self._nonce},s={b64encode(self._salt).decode()},i={_ITERATIONS}"
        self._firsts = f"{bare},{challenge}"
        return challenge.encode()

    def signature(self, client_final: bytes) -> bytes | None:
        """Show that the server knows the password, too; None: the client's proof is wrong."""
        without_proof, _, proof = client_final.decode().rpartition(",p=")
        assert without_proof == f"c=biws,r={self._nonce}"
        signed = f"{self._firsts},{without_proof}".encode()
        stored_key = self._digest(self._hmac(self._salted, b"Client Key"))
        signature = self._hmac(stored_key, signed)
        client_key = bytes(a ^ b for a, b in zip(b64decode(proof), signature, strict=True))
        if not hmac.compare_digest(self._digest(client_key), stored_key):
            return None
        server_key = self._hmac(self._salted, b"Server Key")
        return b"v=" + b64encode(self._hmac(server_key, signed))

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)

    def _digest(self, data: bytes) -> bytes:
        return hashlib.new(self._hash, data).digest()
