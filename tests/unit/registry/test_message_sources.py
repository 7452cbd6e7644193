"""A source whose broker lacks its library is refused with one message."""

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


def test_missing_library_is_one_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    configured(build_registry([]), _settings())
    monkeypatch.setitem(sys.modules, "nats", None)
    monkeypatch.delitem(sys.modules, "inboxd.brokers.nats", raising=False)
    with pytest.raises(SettingsError) as told:
        configured(build_registry([]), _settings())
    (line,) = str(told.value).splitlines()
    assert line.startswith("[inbound.messages.bets]: nats needs nats-py, which is not")
    assert "pip install 'inboxd[nats]'" in line


def test_kind_without_a_consumer_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"\[inbound\.messages\.bets\]: .*'pigeon'"):
        configured(build_registry([]), _settings("pigeon"))


def test_broker_of_a_relay_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)
    monkeypatch.delitem(sys.modules, "inboxd.brokers.nats", raising=False)
    relays = {"out": {"broker": "main", "types": ["a"]}}
    with pytest.raises(SettingsError) as told:
        configured(build_registry([]), _settings(relays=relays))
    (line,) = str(told.value).splitlines()
    assert line.startswith("[relays.out]")
