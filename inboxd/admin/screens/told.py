"""The result of an action, shown once, on the page that follows it.

Owns a signed cookie of a minute. Promises that only sentences signed with the secret of this
process or its settings are shown, so that no other site can put words on a page; and that only the
visitor who acted sees the sentence, once, on the first HTML page after it; JSON and redirects do
not use it up.
"""

import secrets
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from inboxd.admin.screens.access.cookies import cookie_of, set_cookie
from inboxd.admin.screens.access.signed_texts import SignedTexts
from inboxd.admin.screens.actions.contract import ActionTold, Look, Sentence
from inboxd.admin.screens.roles import Visitor
from inboxd.settings import Admin
from inboxd.settings.secrets import read_secret

_COOKIE: Final = "inboxd_told"
# Another text than that of older code, whose cookies have other fields.
_PURPOSE: Final = "look and told to"
_SECONDS: Final = 60
# Characters of a word that are kept.
_LONGEST: Final = 400


@dataclass(frozen=True, slots=True)
class Told:
    """The sentence of a result, and how it is shown."""

    sentence: Sentence
    look: Look


class ToldSentences:
    """Keeps sentences in the visitors' browsers."""

    def __init__(self, settings: Admin) -> None:
        """Sign with the sign-ins' secret of the settings, or with a random one."""
        file = settings.session_secret_file
        secret = secrets.token_bytes(32) if file is None else read_secret(file).encode()
        self._texts = SignedTexts(secret)

    def keep(
        self, request: Request, response: Response, visitor: Visitor, told: ActionTold
    ) -> None:
        """Have the visitor's browser send the sentence with the next request."""
        sentence = told.sentence
        fields = [visitor.actor, told.look, *_kept(sentence)]
        text = self._texts.written(_PURPOSE, fields)
        set_cookie(request, response, _COOKIE, text, _SECONDS)

    def read(self, request: Request, visitor: Visitor | None) -> Told | None:
        """The sentence for this visitor and page, if there is one."""
        text = cookie_of(request, _COOKIE)
        fields = self._texts.read(_PURPOSE, text) if text else None
        if visitor is None or fields is None or fields[0] != visitor.actor:
            return None
        return Told(_read(*fields[2:]), fields[1])

    def forget(self, request: Request, response: Response, visitor: Visitor | None) -> None:
        """Delete the sentence from the browser: this response shows it."""
        if request.method != "HEAD" and self.read(request, visitor) is not None:
            set_cookie(request, response, _COOKIE, "", 0)


def _kept(sentence: Sentence) -> tuple[str, dict[str, object]]:
    """The text and the words of a sentence, as values of JSON."""
    return sentence.text, {
        name: _kept(word) if isinstance(word, Sentence) else str(word)[:_LONGEST]
        for name, word in sentence.words.items()
    }


def _read(text: str, words: dict[str, Any]) -> Sentence:
    return Sentence(
        text,
        {name: _read(*word) if isinstance(word, list) else word for name, word in words.items()},
    )
