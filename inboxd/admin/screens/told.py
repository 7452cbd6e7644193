"""The result of an action, shown once, on the page that follows it.

A signed cookie keeps it for a minute, so that no other site can put words on a page. Only the
visitor who acted sees it, on the first HTML page; JSON and redirects do not use it up.
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
    sentence: Sentence
    look: Look


class ToldSentences:
    def __init__(self, settings: Admin) -> None:
        """Without a secret in the settings, sign with a random one."""
        file = settings.session_secret_file
        secret = secrets.token_bytes(32) if file is None else read_secret(file).encode()
        self._texts = SignedTexts(secret)

    def keep(
        self, request: Request, response: Response, visitor: Visitor, told: ActionTold
    ) -> None:
        sentence = told.sentence
        fields = [visitor.actor, told.look, *_kept(sentence)]
        text = self._texts.written(_PURPOSE, fields)
        set_cookie(request, response, _COOKIE, text, _SECONDS)

    def read(self, request: Request, visitor: Visitor | None) -> Told | None:
        text = cookie_of(request, _COOKIE)
        fields = self._texts.read(_PURPOSE, text) if text else None
        if visitor is None or fields is None or fields[0] != visitor.actor:
            return None
        return Told(_read(*fields[2:]), fields[1])

    def forget(self, request: Request, response: Response, visitor: Visitor | None) -> None:
        """Delete the sentence: this response shows it."""
        if request.method != "HEAD" and self.read(request, visitor) is not None:
            set_cookie(request, response, _COOKIE, "", 0)


def _kept(sentence: Sentence) -> tuple[str, dict[str, object]]:
    return sentence.text, {
        name: _kept(word) if isinstance(word, Sentence) else str(word)[:_LONGEST]
        for name, word in sentence.words.items()
    }


def _read(text: str, words: dict[str, Any]) -> Sentence:
    return Sentence(
        text,
        {name: _read(*word) if isinstance(word, list) else word for name, word in words.items()},
    )
