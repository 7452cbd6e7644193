"""Settings of the admin interface: `[admin]`, the screens and the JSON API.

Owns the users and their roles. Promises that no representation holds a token or a hash. Known
limit: token files are read when the interface starts, and at each reload.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from inboxd.model.passwords import read_password_hash
from inboxd.settings.base import Section, seconds
from inboxd.settings.references import Addresses, HeaderName
from inboxd.settings.values import Duration, Names, is_private_url

# A token of fewer bytes could be guessed.
_LEAST = 16
# Key names whose values are secret wherever they stand.
_SECRETS = (
    *("password", "passwd", "pwd", "passphrase", "secret", "token", "authorization", "cookie"),
    *("api_key", "private_key", "credential", "signature", "card", "cvv", "cvc", "iban"),
)
# A path prefix: an optional trailing slash, no dot segments or escapes.
_PREFIX = r"^/([A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*/?)?$"
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"

# A part of fewer letters and digits would match nearly every name.
_LEAST_WORD = 3

RoleName = Literal["viewer", "reader", "operator", "admin"]


def _hash(secret: SecretStr) -> SecretStr:
    read_password_hash(secret.get_secret_value())
    return secret


def _words(names: tuple[str, ...]) -> tuple[str, ...]:
    short = [each for each in names if sum(map(str.isalnum, each)) < _LEAST_WORD]
    if short:
        raise ValueError(
            f"{short[0]!r} is in too many names: a part of a key has {_LEAST_WORD} letters or "
            "digits at least"
        )
    return names


def _issuer(url: str) -> str:
    if not is_private_url(url) or "?" in url or "#" in url:
        raise ValueError(
            "an issuer is an https URL without a query, such as https://login.example.com; http is "
            "allowed only on this machine"
        )
    return url


class AdminToken(Section):
    """A token: its owner may use the API and the screens."""

    name: str = Field(
        pattern=_NAME, description="Name of the token's owner; the audit records it as the actor."
    )
    token: SecretStr | None = Field(
        None, min_length=_LEAST, description="The bearer token. Prefer `token_file`."
    )
    token_file: Path | None = Field(None, description="File that holds only the token.")
    access: Literal["read", "full"] = Field(
        "read",
        description="read: view rows and payloads (the role reader); full: also replay, dismiss "
        "and cancel (the role operator).",
    )


class AdminUser(Section):
    """A user who may sign in to the screens."""

    name: str = Field(pattern=_NAME, description="Login name; the audit records it as the actor.")
    password_hash: Annotated[SecretStr, AfterValidator(_hash)] = Field(
        description="Hash of the password, made by `inboxd admin hash`."
    )
    role: RoleName = Field("viewer", description="Role of this user.")
    tenants: Annotated[Names, Field(min_length=1)] | None = Field(
        None,
        description="The only tenants whose rows this user may see; unset: all. Set it for people "
        "who look after some of your customers.",
    )


class AdminProxy(Section):
    """A proxy that signs people in and names them to the screens."""

    user_header: HeaderName = Field(description="Header that holds the user's name.")
    groups_header: HeaderName | None = Field(
        None, description="Header that holds the user's groups, separated by commas."
    )
    roles: dict[str, RoleName] = Field(
        description='Role of each group; "*" stands for every user that the proxy names.'
    )


class AdminOidc(Section):
    """An OpenID provider where people sign in."""

    issuer: Annotated[str, AfterValidator(_issuer)] = Field(
        description="Issuer URL, exactly as in the provider's metadata at "
        "ISSUER/.well-known/openid-configuration."
    )
    client_id: str = Field(min_length=1, description="Client id of these screens at the provider.")
    client_secret_file: Path | None = Field(
        None, description="File that holds only the client secret. Unset: a public client."
    )
    scopes: Names = Field(
        ("openid", "profile"), description="Requested scopes; must include openid."
    )
    user_claim: str = Field(
        "preferred_username", min_length=1, description="Claim that holds the user's name."
    )
    groups_claim: str | None = Field(
        None, min_length=1, description="Claim that holds the user's groups, a list of strings."
    )
    roles: dict[str, RoleName] = Field(
        description='Role of each group; "*" stands for every user that the provider signs in.'
    )


class Admin(Section):
    """The admin interface: the screens, and the JSON API."""

    enabled: bool = Field(
        default=False,
        description="Whether `inboxd run` serves the screens and the API; `inboxd admin` always "
        "does. Set it to true when people or their tools need access without a shell.",
    )
    host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address to listen on. Change it when requests come from other machines; see "
        "`allow_remote`.",
    )
    port: int = Field(
        8799,
        ge=0,
        le=65535,
        description="TCP port; 0: any free port. Change it when another program uses it.",
    )
    allow_remote: bool = Field(
        default=False,
        description="Whether `host` may be reachable from other machines without `certificate`: "
        "passwords, tokens and payloads then travel unencrypted. Set it to true behind a proxy "
        "that terminates TLS.",
    )
    certificate: Path | None = Field(
        None,
        description="PEM file of the certificate and its chain, for TLS without a proxy; needs "
        "`private_key`.",
    )
    private_key: Path | None = Field(
        None, description="PEM file of that certificate's private key."
    )
    path: str = Field(
        "/",
        pattern=_PREFIX,
        description="Path prefix of the screens in a browser, whether or not the proxy removes "
        "it. Change it when the proxy serves other things under the same host name.",
    )
    label: str | None = Field(
        None,
        min_length=1,
        max_length=40,
        description="Text that marks the screens of this inbox. Set it when people use several "
        "inboxes, such as production and staging.",
    )
    colour: Literal["gray", "red", "amber", "green", "blue", "violet"] = Field(
        "gray", description="Colour of `label`. Change it to tell inboxes apart at a glance."
    )
    hosts: Names = Field(
        (),
        description="Host names that browsers use for the screens, besides localhost, 127.0.0.1 "
        "and [::1]. Requests with other host names are refused, so that another site's page "
        "cannot reach the screens under its own name. Set it when the screens have a host name.",
    )
    trusted_proxies: Addresses = Field(
        (),
        description="Address ranges of proxies whose headers are trusted: X-Forwarded-For, -Proto, "
        "-Host and -Prefix, and the headers of `proxy`. Set it when a proxy stands in front of the "
        "screens.",
    )
    local_role: RoleName | None = Field(
        None,
        description="Role of visitors from this machine who have not signed in. Unset: viewer if "
        "tokens, users, proxy and oidc are all unset; otherwise they must sign in. Raise it if "
        "everybody who can log in to this machine may see payloads.",
    )
    users: tuple[AdminUser, ...] = Field(
        (),
        description="Users who may sign in to the screens, each with name, password_hash (made by "
        "`inboxd admin hash`) and role: viewer, reader, operator or admin. A user with tenants "
        "sees only the rows of these tenants.",
    )
    proxy: AdminProxy | None = Field(
        None,
        description="How a proxy of `trusted_proxies` identifies users: user_header, "
        "groups_header, and roles, the role of each group. Set it when a proxy signs people in.",
    )
    oidc: AdminOidc | None = Field(
        None,
        description="OpenID provider where people sign in: issuer, client_id, client_secret_file, "
        "scopes, user_claim, groups_claim, and roles, the role of each group. Needs the extra "
        "oidc. Set it when your people have accounts there.",
    )
    session_secret_file: Path | None = Field(
        None,
        description="File with at least 32 characters, the key that signs sessions. Unset: a new "
        "key at each start, which ends all sessions. Set it when several processes serve the "
        "screens.",
    )
    session_idle: Duration = Field(
        seconds(2 * 60 * 60),
        description="Time without opening a page after which a session ends. Lower it if screens "
        "are left unattended.",
    )
    session_lifetime: Duration = Field(
        seconds(12 * 60 * 60),
        description="Longest time that a session lasts. Raise it when a shift is longer.",
    )
    audit_payloads: bool = Field(
        default=False,
        description="Whether the audit records each payload that somebody views. Where the audit "
        "cannot be written, as on a standby, payloads are then not shown. Set it to true if you "
        "must know who saw data.",
    )
    redact_keys: Annotated[Names, AfterValidator(_words)] = Field(
        _SECRETS,
        description="Parts of key names, in upper or lower case, whose values appear as ******** "
        "in payloads, headers, results and errors of a row, on the screens and in the API. Add the "
        "parts that name your own secrets; an empty list masks nothing.",
    )
    hidden_types: Names = Field(
        (),
        description="Types of events and commands, such as `payment.*`, whose payloads, headers "
        "and results are never shown on the screens or in the API. Set it for contents that only "
        "readers of the database may see.",
    )
    tokens: tuple[AdminToken, ...] = Field(
        (),
        description="Tokens for the API, each with name, token or token_file (at least 16 "
        'characters), and access: "read" or "full". Without a token the API refuses every '
        "request.",
    )

    @property
    def open_role(self) -> RoleName | None:
        """The role of a visitor who has not signed in; None: no access."""
        if self.users or self.proxy or self.oidc:
            return None
        return self.local_role or (None if self.tokens else "viewer")
