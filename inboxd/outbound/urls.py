"""Which URLs may be asked.

*See:* `client`, which asks; `addresses`, where they may lead.
"""

import re

from yarl import URL

from inboxd.errors import TargetRefused
from inboxd.model.addresses import plain_ipv4

_LONGEST = 8192
_SPACE = re.compile(r"[\x00-\x20\x7f]")


def checked_url(text: str) -> URL:
    """The URL; raises TargetRefused if it may not be asked, naming no more of it than its host."""
    if len(text) > _LONGEST:
        raise TargetRefused(f"The URL has {len(text)} characters: at most {_LONGEST} can be asked.")
    if _SPACE.search(text):
        raise TargetRefused("The URL has a space or a control character: write it as %20.")
    try:
        # What is ASCII goes out as it is written: a signature may be made of it.
        url = URL(text, encoded=text.isascii())
        host, _ = url.host, url.port
    except ValueError:
        raise TargetRefused("That is not a valid URL: it begins with https://host/.") from None
    if url.scheme not in ("http", "https") or not host:
        raise TargetRefused("The URL has no host, or is not of HTTP: it begins with https://host/.")
    if url.user is not None or url.password is not None:
        raise TargetRefused(
            f"The URL of {host} has a user or a password in it, where logs would show them: give "
            "them as the header Authorization."
        )
    if plain := plain_ipv4(host):
        raise TargetRefused(
            f"The host {host} is {plain} in another notation, which is not asked: write it as "
            f"{plain}; whether that may be asked is another matter."
        )
    return url.with_fragment(None)


def place(url: URL) -> str:
    """Host and port: what may be shown of a URL; a path or a query may hold a secret."""
    return f"{url.host_subcomponent}:{url.port}"
