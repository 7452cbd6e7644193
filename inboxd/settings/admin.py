"""The administrator's interface: `[admin]`.

Promises that no token is in a representation. Known limit: the files of tokens are read when the
interface starts, and at each reload.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from inboxd.settings.base import Section

# Fewer bytes of a token could be guessed.
_LEAST = 16


class AdminToken(Section):
    """Who may use the interface."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$",
        description="Whose it is: the actor in the audit.",
    )
    token: SecretStr | None = Field(
        None, min_length=_LEAST, description="What is sent as a bearer token. A file is better."
    )
    token_file: Path | None = Field(None, description="File that holds only the token.")
    access: Literal["read", "full"] = Field(
        "read", description="read: look at rows, payloads too; full: replay, dismiss, cancel."
    )


class Admin(Section):
    """The administrator's JSON API, to inspect and replay one row."""

    enabled: bool = Field(
        default=False,
        description="Whether `inboxd run` serves it. True when operators or their tools are to act "
        "without a shell.",
    )
    host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address to listen on. Change it when requests come from elsewhere; see "
        "`allow_remote`.",
    )
    port: int = Field(
        8799,
        ge=0,
        le=65535,
        description="TCP port; 0: any free one. Change it when another program has it.",
    )
    allow_remote: bool = Field(
        default=False,
        description="Whether `host` may be reachable from elsewhere without `certificate`: tokens "
        "and payloads are then readable on the way. True behind a proxy that ends TLS.",
    )
    certificate: Path | None = Field(
        None,
        description="PEM file of the certificate and its chain, for TLS without a proxy; needs "
        "`private_key`.",
    )
    private_key: Path | None = Field(
        None, description="PEM file of that certificate's private key."
    )
    tokens: tuple[AdminToken, ...] = Field(
        (),
        description="Who may use it, each with name, token or token_file (16 characters at "
        'least), and access: "read" or "full". Without one nothing is served.',
    )
