"""Checks URLs before a request. *See:* `client`, which sends it."""

import re

from yarl import URL

from inboxd.errors import TargetRefused
from inboxd.model.addresses import plain_ipv4

_LONGEST = 8192
_SPACE = re.compile(r"[\x00-\x20\x7f]")


def checked_url(text: str) -> URL:
    """The URL. Raises TargetRefused, which shows its host at most, if a request is not allowed."""
    if len(text) > _LONGEST:
        raise TargetRefused(
            f"The URL has {len(text)} characters, more than the {_LONGEST} allowed."
        )
    if _SPACE.search(text):
        raise TargetRefused("The URL has a space or a control character: write it as %20.")
    try:
        # ASCII is sent unchanged: a signature may cover the URL.
        url = URL(text, encoded=text.isascii())
        host, _ = url.host, url.port
    except ValueError:
        raise TargetRefused("The URL is not valid: it must begin with https://host/.") from None
    if url.scheme not in ("http", "https") or not host:
        raise TargetRefused(
            "The URL has no host, or is not HTTP: it must begin with https://host/."
        )
    if url.user is not None or url.password is not None:
        raise TargetRefused(
            f"The URL of {host} has a user or a password, which logs would show: send them in the "
            "header Authorization."
        )
    if plain := plain_ipv4(host):
        raise TargetRefused(
            f"The host {host} is {plain} in another notation, which is refused: write it as "
            f"{plain}, if that address is allowed."
        )
    return url.with_fragment(None)


def place(url: URL) -> str:
    """Host and port; the other parts of a URL may contain a secret, and are not shown."""
    return f"{url.host_subcomponent}:{url.port}"
