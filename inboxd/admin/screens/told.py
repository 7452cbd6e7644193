"""What came of an action, told once, on the page that it leads to.

Owns a signed cookie of a minute. Promises that only what this process, or its secret, has written
is shown, so that nobody else's site can have the screens say anything; and that it is shown to the
visitor who acted alone, once, on the first page that they open: a look at JSON, or a page that
leads on to another, forgets nothing.
"""

import secrets
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from inboxd.admin.screens.access.cookies import cookie_of, set_cookie
from inboxd.admin.screens.access.signed_texts import SignedTexts
from inboxd.admin.screens.actions.contract import Sentence
from inboxd.admin.screens.roles import Visitor
from inboxd.settings import Admin
from inboxd.settings.secrets import read_secret

_COOKIE: Final = "inboxd_told"
_PURPOSE: Final = "told to"
_SECONDS: Final = 60
# As much of a word as is told.
_LONGEST: Final = 400


class ToldSentences:
    """Those of one process, or of all that have its secret."""

    def __init__(self, settings: Admin) -> None:
        """Sign with the sign-ins' secret, or with one of this process."""
        file = settings.session_secret_file
        secret = secrets.token_bytes(32) if file is None else read_secret(file).encode()
        self._texts = SignedTexts(secret)

    def keep(
        self, request: Request, response: Response, visitor: Visitor, sentence: Sentence
    ) -> None:
        """Have the visitor's browser bring it to the next page."""
        words = {name: str(word)[:_LONGEST] for name, word in sentence.words.items()}
        text = self._texts.written(_PURPOSE, [visitor.actor, sentence.text, words])
        set_cookie(request, response, _COOKIE, text, _SECONDS)

    def read(self, request: Request, visitor: Visitor | None) -> Sentence | None:
        """What is to be told to a visitor on this page."""
        text = cookie_of(request, _COOKIE)
        fields = self._texts.read(_PURPOSE, text) if text else None
        if visitor is None or fields is None or fields[0] != visitor.actor:
            return None
        return Sentence(*fields[1:])

    def forget(self, request: Request, response: Response, visitor: Visitor | None) -> None:
        """It is told with this response, if there was anything."""
        if request.method != "HEAD" and self.read(request, visitor) is not None:
            set_cookie(request, response, _COOKIE, "", 0)
