"""Bearer tokens: comparison, refusal and secrecy."""

import hmac
from pathlib import Path

import pytest

from inboxd.admin.screens.roles import Role
from inboxd.admin.tokens import Tokens
from inboxd.errors import SettingsError, Unauthentic
from inboxd.settings import Admin

_ADA = "a-token-of-ada-with-full-access"
_BOB = "a-token-of-bob"


def _tokens(folder: Path, bobs: str) -> Tokens:
    file = folder / "bob"
    file.write_text(f"{bobs}\n")
    given = [
        {"name": "ada", "token": _ADA, "access": "full"},
        {"name": "bob", "token_file": str(file)},
    ]
    return Tokens(Admin.model_validate({"tokens": given}).tokens)


def test_every_token_is_compared_as_a_digest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each token is compared in constant time, whichever matches, and whatever length was sent."""
    tokens = _tokens(tmp_path, f"{_BOB}-who-may-look")
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    ada = tokens.bearer({"authorization": f"Bearer {_ADA}"})
    assert (ada.actor, ada.role) == ("token ada", Role.OPERATOR)
    bob = tokens.bearer({"authorization": f"bearer {_BOB}-who-may-look"})
    assert (bob.actor, bob.role) == ("token bob", Role.READER)
    with pytest.raises(Unauthentic):
        tokens.bearer({"authorization": "Bearer x"})
    assert compared == [(32, 32)] * 6


def test_a_short_token_is_refused_without_being_shown(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="could be guessed") as refused:
        _tokens(tmp_path, _BOB)
    assert _BOB not in str(refused.value)


def test_without_tokens_every_request_is_refused() -> None:
    with pytest.raises(Unauthentic):
        Tokens(()).bearer({"authorization": f"Bearer {_ADA}"})


def test_a_token_is_in_no_repr() -> None:
    admin = Admin.model_validate({"tokens": [{"name": "ada", "token": _ADA}]})
    assert _ADA not in repr(admin)
