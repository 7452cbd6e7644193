"""Schemes of plugins, found by entry points; an error of one is a line with its name."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inboxd.errors import PluginError, SettingsError
from inboxd.signatures import Key, SignedRequest, verifier

Install = Callable[..., None]
SECRET = b"a-secret-that-nobody-sees"

GOOD = """
from inboxd.signatures import Unauthentic, Verifier

class Length(Verifier):
    signed_headers = frozenset({"x-length"})

    def __init__(self, keys, tolerance, options):
        self.given = (keys, tolerance, options)

    def verify(self, request, now):
        if request.headers.get("x-length") != str(len(request.body)):
            raise Unauthentic("another length")
        return self.given[0][0].id

    def sign(self, body, message_id, now):
        return {"x-length": str(len(body))}

def factory(keys, *, tolerance, options):
    return Length(keys, tolerance, options)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a distribution with one module; the entry point's name is that of a scheme."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def write(name: str, source: str, scheme: str = "length") -> None:
        (tmp_path / f"{name}.py").write_text(source)
        info = tmp_path / f"dist_{name}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: dist-{name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[inboxd.verifiers]\n{scheme} = {name}:factory\n")

    yield write
    for added in set(sys.modules) - before:
        del sys.modules[added]


def test_a_plugin_adds_a_scheme(install: Install) -> None:
    install("good", GOOD)
    install("unasked", "raise RuntimeError", "other")
    key = Key("a", SECRET)
    found = verifier("length", [key], tolerance=7, options={"x": 1, "y": None})
    assert found.given == ([key], 7, {"x": 1})  # type: ignore[attr-defined] # a plugin's own
    assert found.verify(SignedRequest(found.sign(b"abc", "", 0), b"abc"), 0) == "a"
    assert (found.default_dedup_key, found.doubts) == (None, ())


WRONG = {
    "import": ("import no_such_module", "import failed: ModuleNotFoundError: No module named"),
    "syntax": ("def", "import failed: SyntaxError: invalid syntax, at "),
    "missing": ("", "import failed: AttributeError: module 'wrong' has no attribute 'factory'"),
    "exit": ("raise SystemExit(3)", "import failed: SystemExit: 3, at "),
    "kind": ("factory = 7", "it names a int: let it name a function"),
    "failing": (
        "def factory(keys, **others):\n    raise ValueError(f'odd\\n{keys[0].secret}')",
        "it failed: ValueError: odd b'…', at ",
    ),
    "arguments": ("def factory(keys): ...", "it failed: TypeError: factory() got an unexpected"),
    "none": (
        "def factory(keys, *, tolerance, options): ...",
        "it made a NoneType without verify, sign, signed_headers",
    ),
    "kept": (
        GOOD.replace('{"x-length"}', '{"x-length", "authorization"}'),
        "its signed_headers are stored, but have secret headers: authorization",
    ),
}


@pytest.mark.parametrize(("source", "message"), WRONG.values(), ids=WRONG)
def test_an_error_of_a_plugin_is_reported_in_one_line(
    install: Install, source: str, message: str
) -> None:
    install("wrong", source)
    with pytest.raises(PluginError) as refused:
        verifier("length", [Key("a", SECRET)], tolerance=7)
    text = str(refused.value)
    assert text.startswith("dist-wrong 1.2, entry point length = wrong:factory: ")
    assert message in text
    assert SECRET.decode() not in text
    assert "\n" not in text


def test_keys_that_a_plugin_refuses_are_a_settings_error(install: Install) -> None:
    source = "from inboxd.errors import SettingsError\n"
    source += "def factory(keys, *, tolerance, options): raise SettingsError('no key fits.')"
    install("strict", source)
    with pytest.raises(SettingsError, match=r"dist-strict 1\.2, .*: no key fits\."):
        verifier("length", [Key("a", SECRET)], tolerance=7)


def test_a_scheme_of_two_plugins_is_refused_with_both_names(install: Install) -> None:
    install("one", GOOD)
    install("two", GOOD)
    with pytest.raises(PluginError, match=r"dist-one 1\.2, .* and dist-two 1\.2, .*: uninstall"):
        verifier("length", [Key("a", SECRET)], tolerance=7)


def test_a_plugin_cannot_replace_a_built_in_scheme(install: Install) -> None:
    install("false_friend", GOOD, "github")
    assert verifier("github", [Key("a", SECRET)], tolerance=7).sign(b"", "", 0).keys() == {
        "x-hub-signature-256",
        "x-github-delivery",
    }


def test_an_unknown_scheme_is_refused_with_those_of_plugins(install: Install) -> None:
    install("good", GOOD)
    with pytest.raises(SettingsError, match=r"scheme 'lenght' is not known; did you mean 'length'"):
        verifier("lenght", [Key("a", SECRET)], tolerance=7)
    with pytest.raises(SettingsError, match=r"'zz' is not known; known: bearer, .*length, .*svix"):
        verifier("zz", [Key("a", SECRET)], tolerance=7)
