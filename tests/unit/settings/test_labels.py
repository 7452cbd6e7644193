"""Templates of links: allowed targets and placeholders."""

import pytest
from pydantic import ValidationError

from inboxd.settings.labels import Links


@pytest.mark.parametrize(
    "template",
    [
        "https://crm.example/{entity_type}/{entity_id}",
        "http://localhost:8080/?q={entity_id}&t={tenant}#top",
    ],
)
def test_link_to_http_is_valid(template: str) -> None:
    assert Links(entity=template).entity == template


@pytest.mark.parametrize(
    "template",
    [
        "javascript:alert({entity_id})",
        "data:text/html,{entity_id}",
        "ftp://crm.example/{entity_id}",
        "//crm.example/{entity_id}",
        "crm.example/{entity_id}",
        "https:///{entity_id}",
        "https://{entity_id}/",
        "https://crm.{tenant}.example/{entity_id}",
        "https://crm.example:{entity_id}/",
        "https://me:secret@crm.example/{entity_id}",
        "https://crm.example/",
        "https://crm.example/{payload}",
        "https://crm.example/{entity_id.__class__}",
        "https://crm.example/{entity_id!r}",
        "https://crm.example/{}",
        "https://crm.example/a b/{entity_id}",
        "https://crm.example/\n{entity_id}",
        "https://crm.example/\u202e{entity_id}",
        "https://crm.example/" + "x" * 1024 + "{entity_id}",
        "https://[crm/{entity_id}",
    ],
)
def test_wrong_link_is_refused(template: str) -> None:
    with pytest.raises(ValidationError):
        Links(entity=template)


def test_each_link_has_its_own_placeholders() -> None:
    with pytest.raises(ValidationError, match="trace_id"):
        Links(trace="https://traces.example/{entity_id}")
    with pytest.raises(ValidationError, match="tenant"):
        Links(tenant="https://crm.example/{trace_id}")
