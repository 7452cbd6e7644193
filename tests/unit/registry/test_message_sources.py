"""A source whose broker's library is missing is one clear problem, before anything runs."""

import sys

import pytest

from inboxd.errors import SettingsError
from inboxd.registry.plugins import build_registry, configured
from inboxd.settings import Settings


def _settings(kind: str = "nats", **more: object) -> Settings:
    return Settings.model_validate(
        {
            "brokers": {"main": {"kind": kind, "servers": ["127.0.0.1:1"]}},
            "inbound": {"messages": {"bets": {"broker": "main", "nats_stream": "BETS"}}},
            **more,
        }
    )


def test_a_library_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    configured(build_registry([]), _settings())
    monkeypatch.setitem(sys.modules, "nats", None)
    monkeypatch.delitem(sys.modules, "inboxd.brokers.nats", raising=False)
    with pytest.raises(SettingsError) as told:
        configured(build_registry([]), _settings())
    (line,) = str(told.value).splitlines()
    assert line.startswith("[inbound.messages.bets]: nats needs nats-py, which is not")
    assert "pip install 'inboxd[nats]'" in line


def test_a_kind_that_is_only_published_to() -> None:
    with pytest.raises(SettingsError, match=r"\[inbound\.messages\.bets\]: .*'pigeon'"):
        configured(build_registry([]), _settings("pigeon"))


def test_a_broker_that_is_relayed_to_is_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)
    monkeypatch.delitem(sys.modules, "inboxd.brokers.nats", raising=False)
    relays = {"out": {"broker": "main", "types": ["a"]}}
    with pytest.raises(SettingsError) as told:
        configured(build_registry([]), _settings(relays=relays))
    (line,) = str(told.value).splitlines()
    assert line.startswith("[relays.out]")
