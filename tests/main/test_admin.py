"""`inboxd admin hash` prints a password's hash, and never the password."""

import getpass

import pytest

from inboxd.model.passwords import read_password_hash
from tests.cli.conftest import Cli


def test_password_is_the_first_line_without_a_terminal(run_cli: Cli) -> None:
    result = run_cli("admin", "hash", stdin="correct horse\nmore\n")
    assert result.code == 0
    assert read_password_hash(result.out).matches("correct horse")
    assert "horse" not in result.out + result.err


def test_password_at_a_terminal_is_typed_twice_and_hidden(
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
def test_weak_passwords_are_refused(run_cli: Cli, typed: str) -> None:
    refused = run_cli("admin", "hash", stdin=typed)
    assert (refused.code, "8 to 1024 characters" in refused.err) == (2, True)
