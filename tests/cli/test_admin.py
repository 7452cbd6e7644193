"""`inboxd admin hash`: a password's hash, and nothing of the password."""

import getpass

import pytest

from inboxd.model.passwords import read_password_hash
from tests.cli.conftest import Cli


def test_without_a_terminal_it_is_the_first_line(run_cli: Cli) -> None:
    result = run_cli("admin", "hash", stdin="correct horse\nmore\n")
    assert result.code == 0
    assert read_password_hash(result.out).matches("correct horse")
    assert "horse" not in result.out + result.err


def test_at_a_terminal_it_is_asked_for_twice_and_not_shown(
    run_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = iter(["correct horse", "correct horse", "correct horse", "correct house"])
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return next(typed)

    monkeypatch.setattr(getpass, "getpass", ask)
    result = run_cli("admin", "hash", terminal=True)
    assert read_password_hash(result.out).matches("correct horse")
    assert len(asked) == 2
    refused = run_cli("admin", "hash", terminal=True)
    assert (refused.code, refused.out) == (2, "")
    assert "two passwords" in refused.err


@pytest.mark.parametrize("typed", ["", "short", "x" * 1025])
def test_what_could_be_guessed_is_refused(run_cli: Cli, typed: str) -> None:
    refused = run_cli("admin", "hash", stdin=typed)
    assert (refused.code, "8 to 1024 characters" in refused.err) == (2, True)
