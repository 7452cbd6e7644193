"""Contradictions within `[admin]`, above all about who gets access.

Promises that a visitor from another machine needs a login, and that a rule is applied only if all
of `[admin]` is valid by itself.
*See:* `inboxd/settings/contradictions.py`, which calls this.
"""

from collections.abc import Iterable, Iterator

from inboxd.settings.admin import Admin
from inboxd.settings.sections import Settings
from inboxd.settings.values import is_loopback


def in_admin(settings: Settings) -> Iterator[str]:
    """Yield every contradiction, with the places of its values."""
    if settings.knows("admin"):
        place = settings.places_of("admin", settings.admin)
        for rule in (_tokens, _users, _proxy, _oidc, _open_access, _unencrypted, _certificate):
            for found in rule(settings.admin):
                yield f"{place}: [admin]: {found}" if place else f"[admin]: {found}"


def _tokens(admin: Admin) -> Iterator[str]:
    for token in admin.tokens:
        if (token.token is None) == (token.token_file is None):
            yield f"token {token.name!r} needs either token or token_file"
    for name in _twice(token.name for token in admin.tokens):
        yield f"two tokens are called {name!r}; the audit could not tell them apart"


def _users(admin: Admin) -> Iterator[str]:
    for name in _twice(user.name for user in admin.users):
        yield f"two users are called {name!r}; give one of them another name"


def _proxy(admin: Admin) -> Iterator[str]:
    if admin.proxy is None:
        return
    if not admin.trusted_proxies:
        yield (
            "proxy needs trusted_proxies, or any client could send the header that names the "
            'user; set it to the address of the proxy, such as ["127.0.0.1"]'
        )
    if admin.proxy.groups_header is None and set(admin.proxy.roles) - {"*"}:
        yield 'proxy.roles names groups, but groups_header is missing; set it, or use only "*"'
    if not admin.proxy.roles:
        yield 'proxy.roles is empty, so no user has a role; set { "*" = "viewer" }'


def _oidc(admin: Admin) -> Iterator[str]:
    if admin.oidc is None:
        return
    if "openid" not in admin.oidc.scopes:
        yield (
            'oidc.scopes lacks "openid", without which the provider does not name the user; add it'
        )
    if admin.oidc.groups_claim is None and set(admin.oidc.roles) - {"*"}:
        yield 'oidc.roles names groups, but groups_claim is missing; set it, or use only "*"'
    if not admin.oidc.roles:
        yield 'oidc.roles is empty, so no user has a role; set { "*" = "viewer" }'


def _open_access(admin: Admin) -> Iterator[str]:
    if admin.local_role is not None and (admin.users or admin.proxy or admin.oidc):
        yield (
            "local_role allows access without a login, but users, proxy and oidc require one; "
            "leave out local_role or these"
        )
    if admin.open_role is not None and not is_loopback(admin.host):
        yield (
            f"host {admin.host!r} can be reached from other machines, and no login is required; "
            "add users (`inboxd admin hash` makes a password's hash), proxy, oidc or tokens, or "
            "use 127.0.0.1"
        )


def _unencrypted(admin: Admin) -> Iterator[str]:
    if not (admin.allow_remote or admin.certificate or is_loopback(admin.host)):
        yield (
            f"host {admin.host!r} can be reached from other machines, and nothing is encrypted; "
            "use 127.0.0.1, set certificate and private_key, or set allow_remote = true where only "
            "a proxy that terminates TLS reaches it"
        )


def _certificate(admin: Admin) -> Iterator[str]:
    if (admin.certificate is None) != (admin.private_key is None):
        yield "certificate and private_key belong together: set both or neither"


def _twice(names: Iterable[str]) -> list[str]:
    found = [*names]
    return sorted({each for each in found if found.count(each) > 1})
