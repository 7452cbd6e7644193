"""The OpenAPI document describes the settings, and nothing that helps an attacker."""

import json
from typing import Any

import pytest

from inboxd.inbound.openapi import base_url, openapi
from inboxd.settings import Settings

SOURCES: dict[str, Any] = {
    "bank": {"keys": [{"secret": "hunter2"}], "type": "bank.paid", "addresses": ["192.0.2.0/24"]},
    "shop": {"scheme": "bearer", "answer": 204, "rate": "77/s", "body": "form"},
    "token": {"scheme": "bearer", "options": {"header": "X-Token"}},
    "proxied": {"scheme": "client_certificate", "certificate": {"subjects": ["CN=them"]}},
    "hub": {"scheme": "github", "body": "text", "answer": 200},
    "own": {
        "scheme": "hmac",
        "hmac": {"header": "X-Sign", "timestamp_header": "X-Time", "id_header": "X-Id"},
    },
}


def made(sources: dict[str, Any], **http: Any) -> dict[str, Any]:
    inbound = Settings.model_validate({"inbound": {"http": http, "webhooks": sources}}).inbound
    return openapi(inbound.http, inbound.webhooks, "1.0")


def post(document: dict[str, Any], source: str) -> dict[str, Any]:
    found: dict[str, Any] = document["paths"][f"/in/{source}"]["post"]
    return found


def test_each_source_has_a_path() -> None:
    document = made(SOURCES)
    assert document["openapi"] == "3.1.0"
    assert list(document["paths"]) == [f"/in/{name}" for name in SOURCES]
    ids = [post(document, name)["operationId"] for name in SOURCES]
    assert len({*ids}) == len(SOURCES)


def test_the_document_has_nothing_that_helps_an_attacker() -> None:
    text = json.dumps(made(SOURCES))
    for secret in ("hunter2", "192.0.2.0", "CN=them", "77"):
        assert secret not in text


def test_every_reference_has_a_target() -> None:
    document = made(SOURCES)

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if "$ref" in node:
                found: Any = document
                for part in node["$ref"].removeprefix("#/").split("/"):
                    found = found[part]
            for inner in node.values():
                walk(inner)
        elif isinstance(node, list):
            for inner in node:
                walk(inner)

    walk(document)
    schemes = document["components"]["securitySchemes"]
    for name in SOURCES:
        (needed,) = post(document, name)["security"]
        assert needed
        assert needed.keys() <= schemes.keys()


@pytest.mark.parametrize(
    ("source", "headers"),
    [
        ("bank", ["webhook-id", "webhook-timestamp", "webhook-signature"]),
        ("hub", ["x-hub-signature-256"]),
        ("token", ["x-token"]),
        ("own", ["x-sign", "x-time", "x-id"]),
    ],
)
def test_a_signature_is_in_headers(source: str, headers: list[str]) -> None:
    document = made(SOURCES)
    (needed,) = post(document, source)["security"]
    schemes = document["components"]["securitySchemes"]
    assert [schemes[key]["name"] for key in needed] == headers


def test_only_possible_answers_of_a_source_are_listed() -> None:
    document = made(SOURCES)
    bank, shop = (post(document, name)["responses"] for name in ("bank", "shop"))
    assert {"202", "400", "401", "403", "431", "503"} <= bank.keys()
    assert "429" not in bank, "the source has no rate"
    assert {"204", "429"} <= shop.keys()
    assert "403" not in shop, "the source has no addresses"
    assert "content" not in shop["204"]
    assert "Retry-After" in shop["429"]["headers"]
    assert "429" in post(made(SOURCES, rate_per_address="1/s"), "bank")["responses"]


def test_the_body_has_the_media_type_of_the_source() -> None:
    document = made(SOURCES)
    media = [[*post(document, name)["requestBody"]["content"]] for name in ("bank", "shop", "hub")]
    assert media == [["application/json"], ["application/x-www-form-urlencoded"], ["text/plain"]]


@pytest.mark.parametrize(
    ("http", "url"),
    [
        ({}, "http://127.0.0.1:8798"),
        ({"host": "::", "port": 80}, "http://[::1]:80"),
        ({"host": "::1"}, "http://[::1]:8798"),
        ({"certificate": "/a", "private_key": "/b"}, "https://127.0.0.1:8798"),
    ],
)
def test_the_address_of_the_listener(http: dict[str, Any], url: str) -> None:
    inbound = Settings.model_validate({"inbound": {"http": http}}).inbound
    assert base_url(inbound.http) == url
