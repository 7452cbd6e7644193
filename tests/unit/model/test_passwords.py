"""Password hashes are made, read and compared, and refused if they are easy to guess."""

import pytest

from inboxd.model.passwords import PasswordHash, decoy, hash_password, read_password_hash

# The test vector of RFC 7914, section 12.
_SALT = b"SodiumChloride"
_DIGEST = bytes.fromhex(
    "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
    "d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"
)


def test_hash_matches_only_its_password() -> None:
    made = hash_password("pässword", exponent=14, rounds=1)
    read = read_password_hash(f" {made}\n")
    assert read == made
    assert read.matches("pässword")
    assert read.matches("pa\u0308ssword"), "the same password, decomposed"
    for other in ("passwort", "", "pässword ", "x" * 1000, "\ud800"):
        assert not read.matches(other)
    assert hash_password("pässword", exponent=14, rounds=1) != made, "each hash has its own salt"


def test_default_cost_of_a_hash() -> None:
    made = hash_password("password")
    assert str(made).startswith("$scrypt$ln=15,r=8,p=3$")
    assert made.memory == 32 * 1024**2


def test_hash_is_the_scrypt_of_the_rfc() -> None:
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
def test_invalid_hash_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="inboxd admin hash") as refused:
        read_password_hash(text)
    assert not text or text not in str(refused.value)


@pytest.mark.parametrize(
    "cost", ["ln=10,r=8,p=1", "ln=18,r=8,p=1", "ln=15,r=8,p=99", "ln=15,r=0,p=1"]
)
def test_too_cheap_or_too_expensive_hash_is_refused(cost: str) -> None:
    made = str(hash_password("password", exponent=14, rounds=1))
    with pytest.raises(ValueError, match="too little or too much"):
        read_password_hash(made.replace("ln=14,r=8,p=1", cost))


def test_decoy_costs_as_much_as_the_most_expensive_hash() -> None:
    cheap = hash_password("password", exponent=14, rounds=1)
    dear = hash_password("password", exponent=14, rounds=2)
    found = decoy([cheap, dear, cheap])
    assert found.cost == dear.cost
    assert not found.matches("password")


def test_neither_salt_nor_digest_is_in_a_representation() -> None:
    made = hash_password("password", exponent=14, rounds=1)
    assert repr(made) == "PasswordHash(exponent=14, blocks=8, rounds=1)"


def test_decoy_without_passwords_is_made_without_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The decoy is made on the event loop at each reload."""

    def work(*_: object, **__: object) -> bytes:
        raise AssertionError("a password was hashed")

    with monkeypatch.context() as patched:
        patched.setattr("inboxd.model.passwords.scrypt", work)
        found = decoy([])
    assert found.memory == 32 * 1024**2
    assert not found.matches("")
