"""Links from rows: inserted values are encoded, and cannot change the address."""

from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.operations.labels import links_of
from inboxd.settings.labels import Links

LINKS = Links(
    entity="https://crm.example/{entity_type}/{entity_id}?t={tenant}",
    trace="https://traces.example/{trace_id}",
    tenant="https://crm.example/tenants/{tenant}",
)
ROW = {
    "entity_type": "order",
    "entity_id": "4711",
    "tenant": "acme",
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
}


def test_links_of_entity_trace_and_tenant() -> None:
    assert links_of(LINKS, ROW) == {
        "entity": "https://crm.example/order/4711?t=acme",
        "trace": "https://traces.example/4bf92f3577b34da6a3ce929d0e0e4736",
        "tenant": "https://crm.example/tenants/acme",
    }


@pytest.mark.parametrize("missing", [None, "", ".", ".."])
def test_missing_value_gives_no_link(missing: str | None) -> None:
    assert "entity" not in links_of(LINKS, ROW | {"entity_id": missing})
    assert links_of(LINKS, ROW | {"entity_id": missing}).keys() == {"trace", "tenant"}
    assert "trace" not in links_of(LINKS, ROW | {"traceparent": missing})
    assert links_of(Links(), ROW) == {}


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_values_cannot_change_the_address(value: str) -> None:
    found = links_of(LINKS, ROW | {"entity_id": value, "tenant": value})
    for link in found.values():
        assert link.isascii()
        assert link.isprintable()
        assert not set(link) & set(" <>\"'\\`{}")
    if "entity" in found:
        parts = urlsplit(found["entity"])
        assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "crm.example", "")
        kind, id_ = parts.path.removeprefix("/").split("/")
        assert (kind, unquote(id_)) == ("order", value)


def test_too_long_link_is_left_out() -> None:
    assert "entity" not in links_of(LINKS, ROW | {"entity_id": "x" * 1_000_000})
