"""Hashes of passwords: made, read, compared, and refused where they could be guessed."""

import pytest

from inboxd.model.passwords import PasswordHash, decoy, hash_password, read_password_hash

# Of RFC 7914, section 12.
_SALT = b"SodiumChloride"
_DIGEST = bytes.fromhex(
    "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
    "d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"
)


def test_a_hash_is_its_passwords_alone() -> None:
    made = hash_password("pässword", exponent=14, rounds=1)
    read = read_password_hash(f" {made}\n")
    assert read == made
    assert read.matches("pässword")
    assert read.matches("pa\u0308ssword"), "typed in another way"
    for other in ("passwort", "", "pässword ", "x" * 1000, "\ud800"):
        assert not read.matches(other)
    assert hash_password("pässword", exponent=14, rounds=1) != made, "each has a salt of its own"


def test_what_costs_a_quarter_of_a_second_is_the_default() -> None:
    made = hash_password("password")
    assert str(made).startswith("$scrypt$ln=15,r=8,p=3$")
    assert made.memory == 32 * 1024**2


def test_it_is_the_scrypt_of_others() -> None:
    of_rfc = PasswordHash(14, 8, 1, _SALT, _DIGEST)
    assert of_rfc.matches("pleaseletmein")
    assert not of_rfc.matches("pleaseletmeIn")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a-password",
        "$2b$12$abcdefghijklmnopqrstuv",
        "$scrypt$ln=14,r=8$AAAA$AAAA",
        "$scrypt$ln=14,r=8,p=1$AAAA$AAAA",
    ],
)
def test_what_is_no_hash_is_refused_without_being_told(text: str) -> None:
    with pytest.raises(ValueError, match="inboxd admin hash") as refused:
        read_password_hash(text)
    assert not text or text not in str(refused.value)


@pytest.mark.parametrize(
    "cost", ["ln=10,r=8,p=1", "ln=18,r=8,p=1", "ln=15,r=8,p=99", "ln=15,r=0,p=1"]
)
def test_what_costs_too_little_or_too_much_is_refused(cost: str) -> None:
    made = str(hash_password("password", exponent=14, rounds=1))
    with pytest.raises(ValueError, match="too little or too much"):
        read_password_hash(made.replace("ln=14,r=8,p=1", cost))


def test_a_decoy_costs_as_much_as_the_dearest() -> None:
    cheap = hash_password("password", exponent=14, rounds=1)
    dear = hash_password("password", exponent=14, rounds=2)
    found = decoy([cheap, dear, cheap])
    assert found.cost == dear.cost
    assert not found.matches("password")


def test_neither_salt_nor_digest_is_in_a_representation() -> None:
    made = hash_password("password", exponent=14, rounds=1)
    assert repr(made) == "PasswordHash(exponent=14, blocks=8, rounds=1)"


def test_where_nobody_has_a_password_a_decoy_is_made_without_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is made on the loop, at each reload."""

    def work(*_: object, **__: object) -> bytes:
        raise AssertionError("something was hashed")

    with monkeypatch.context() as patched:
        patched.setattr("inboxd.model.passwords.scrypt", work)
        found = decoy([])
    assert found.memory == 32 * 1024**2
    assert not found.matches("")
