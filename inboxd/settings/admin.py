"""What people and their tools look through: `[admin]`, the screens and the JSON API.

Owns who may visit, and as what. Promises that no token and no hash is in a representation. Known
limit: the files of tokens are read when the interface starts, and at each reload.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from inboxd.model.passwords import read_password_hash
from inboxd.settings.base import Section, seconds
from inboxd.settings.references import Addresses, HeaderName
from inboxd.settings.values import Duration, Names, is_private_url

# Fewer bytes of a token could be guessed.
_LEAST = 16
# Names of keys whose values are secrets wherever they stand.
_SECRETS = (
    *("password", "passwd", "pwd", "passphrase", "secret", "token", "authorization", "cookie"),
    *("api_key", "private_key", "credential", "signature", "card", "cvv", "cvc", "iban"),
)
# A part of an address that a browser may have, and no link may leave.
_PREFIX = r"^/([A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*/?)?$"
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"

# Fewer letters and digits would be in nearly any name.
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
            "an issuer is such as https://login.example.com, without a query; http is for this "
            "machine alone"
        )
    return url


class AdminToken(Section):
    """Who may use the interface."""

    name: str = Field(pattern=_NAME, description="Whose it is: the actor in the audit.")
    token: SecretStr | None = Field(
        None, min_length=_LEAST, description="What is sent as a bearer token. A file is better."
    )
    token_file: Path | None = Field(None, description="File that holds only the token.")
    access: Literal["read", "full"] = Field(
        "read",
        description="read: look at rows, payloads too, the role reader; full: replay, dismiss, "
        "cancel as well, the role operator.",
    )


class AdminUser(Section):
    """Who signs in to the screens."""

    name: str = Field(pattern=_NAME, description="What is typed, and the actor in the audit.")
    password_hash: Annotated[SecretStr, AfterValidator(_hash)] = Field(
        description="What `inboxd admin hash` prints for the password."
    )
    role: RoleName = Field("viewer", description="What this user may do.")
    tenants: Annotated[Names, Field(min_length=1)] | None = Field(
        None,
        description="Tenants whose rows this user may see, and nothing else. Unset: all. Set it "
        "for people who look after some of your customers.",
    )


class AdminProxy(Section):
    """A proxy that knows who visits."""

    user_header: HeaderName = Field(description="The header that names the user.")
    groups_header: HeaderName | None = Field(
        None, description="The header that names the user's groups, with commas between them."
    )
    roles: dict[str, RoleName] = Field(
        description='The role of each group; "*" is whoever the proxy names.'
    )


class AdminOidc(Section):
    """An OpenID provider, at which people sign in."""

    issuer: Annotated[str, AfterValidator(_issuer)] = Field(
        description="Its address, as its own metadata has it: they are at "
        "ISSUER/.well-known/openid-configuration."
    )
    client_id: str = Field(min_length=1, description="What the provider calls these screens.")
    client_secret_file: Path | None = Field(
        None, description="File that holds only the client's secret. Unset: a public client."
    )
    scopes: Names = Field(
        ("openid", "profile"), description="What is asked for; openid is one of them."
    )
    user_claim: str = Field(
        "preferred_username", min_length=1, description="The claim that names the user."
    )
    groups_claim: str | None = Field(
        None, min_length=1, description="The claim that has the user's groups, a list of texts."
    )
    roles: dict[str, RoleName] = Field(
        description='The role of each group; "*" is whoever the provider lets in.'
    )


class Admin(Section):
    """What people and their tools look through: the screens, and the JSON API."""

    enabled: bool = Field(
        default=False,
        description="Whether `inboxd run` serves it; `inboxd admin` does in any case. True when "
        "people or their tools are to look or act without a shell.",
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
        description="Whether `host` may be reachable from elsewhere without `certificate`: "
        "passwords, tokens and payloads are then readable on the way. True behind a proxy that "
        "ends TLS.",
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
        description="What stands before every path in a browser, whether or not the proxy takes it "
        "off. Change it when a proxy has other things on the same name.",
    )
    label: str | None = Field(
        None,
        min_length=1,
        max_length=40,
        description="What the screens of this inbox are marked with. Set it when people look at "
        "several, such as production and staging.",
    )
    colour: Literal["gray", "red", "amber", "green", "blue", "violet"] = Field(
        "gray", description="Colour of `label`. Change it to tell inboxes apart at one look."
    )
    hosts: Names = Field(
        (),
        description="Names by which browsers call the screens, besides localhost, 127.0.0.1 and "
        "[::1]; others are refused, so that no page of another site gets at them by its own name. "
        "Set it when they have a name.",
    )
    trusted_proxies: Addresses = Field(
        (),
        description="Address ranges of proxies whose X-Forwarded-For, -Proto, -Host and -Prefix "
        "are believed, and the headers of `proxy`. Set it when a proxy stands before the screens.",
    )
    local_role: RoleName | None = Field(
        None,
        description="Role of whoever opens the screens from this machine without signing in. "
        "Unset: viewer if there are no tokens, users, proxy or oidc, else nobody. Raise it where "
        "all who can log in to this machine may see payloads.",
    )
    users: tuple[AdminUser, ...] = Field(
        (),
        description="Who may sign in to the screens, each with name, password_hash (by "
        "`inboxd admin hash`) and role: viewer, reader, operator or admin; and with tenants, if "
        "this user may see rows of those alone.",
    )
    proxy: AdminProxy | None = Field(
        None,
        description="How a proxy of `trusted_proxies` says who visits: user_header, groups_header, "
        "and roles, the role of each group. Set it when a proxy signs people in.",
    )
    oidc: AdminOidc | None = Field(
        None,
        description="An OpenID provider at which people sign in: issuer, client_id, "
        "client_secret_file, scopes, user_claim, groups_claim, and roles, the role of each group. "
        "Needs the extra oidc. Set it when your people have accounts there.",
    )
    session_secret_file: Path | None = Field(
        None,
        description="File with 32 characters or more, by which sign-ins are signed. Unset: made at "
        "each start, which ends them. Set it when several processes serve the screens.",
    )
    session_idle: Duration = Field(
        seconds(2 * 60 * 60),
        description="How long a sign-in lasts in which no page is opened. Lower it where screens "
        "are left alone.",
    )
    session_lifetime: Duration = Field(
        seconds(12 * 60 * 60),
        description="How long a sign-in lasts at all. Raise it when a shift is longer.",
    )
    audit_payloads: bool = Field(
        default=False,
        description="Whether each payload that is looked at is a line of the audit; where none can "
        "be written, as on a standby, no payload is shown. True where you must know who saw data.",
    )
    redact_keys: Annotated[Names, AfterValidator(_words)] = Field(
        _SECRETS,
        description="Parts of names, upper or lower case, whose values are shown as ******** in "
        "payloads, headers, results and errors of a row, on the screens and by the API. Add those "
        "of your own secrets; empty: none is hidden.",
    )
    hidden_types: Names = Field(
        (),
        description="Types of events and commands, such as `payment.*`, whose payloads, headers "
        "and results nobody sees on the screens or by the API. Set it for what is only for those "
        "who may read the database.",
    )
    tokens: tuple[AdminToken, ...] = Field(
        (),
        description="Who may use the API, each with name, token or token_file (16 characters at "
        'least), and access: "read" or "full". Without one the API lets nobody in.',
    )

    @property
    def open_role(self) -> RoleName | None:
        """The role of who visits without signing in; None: nobody does."""
        if self.users or self.proxy or self.oidc:
            return None
        return self.local_role or (None if self.tokens else "viewer")
