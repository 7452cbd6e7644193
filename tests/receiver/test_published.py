"""Answers of the receiver conform to its published OpenAPI document.

schemathesis draws requests from the output of `inboxd webhooks openapi`, signed and unsigned.
"""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any, TypeAlias

import anyio
import orjson
import pytest
import requests
import schemathesis
from hypothesis import given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from inboxd.embedded import Server
from tests.support import Database, create, drop
from tests.support.ports import held_port
from tests.support.receiver import TOPIC, Receiver, port_of
from tests.support.sender import standard_webhooks
from tests.support.waiting import patient

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
Operation: TypeAlias = APIOperation[Any, Any, Any, Any]
_SIGN = standard_webhooks()


@pytest.fixture(scope="module")
def receiver(
    durable_server: Server, durable_template: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Receiver]:
    database = create(durable_server, durable_template.name)
    anyio.run(database.execute, TOPIC)
    with held_port() as held:
        folder = tmp_path_factory.mktemp("receiver")
        started = Receiver(folder, database.dsn, port_of(held), http={}, source={}, config={})
        try:
            anyio.run(started.ready)
            yield started
            started.holds()
        finally:
            started.kill()
    drop(durable_server, database)


@pytest.fixture(scope="module")
def operation(receiver: Receiver) -> Operation:
    """The one operation of the document for the receiver's settings."""
    command = [sys.executable, "-m", "inboxd", "webhooks", "openapi"]
    command += ["-c", str(receiver.log.with_suffix(".toml"))]
    document = subprocess.run(command, capture_output=True, check=True).stdout
    schema = schemathesis.openapi.from_dict(orjson.loads(document))
    (found,) = schema.get_all_operations()
    assert isinstance(found, Ok)
    return found.ok()


@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize("signed", [False, True])
def test_answers_conform_to_the_document(
    receiver: Receiver, operation: Operation, mode: GenerationMode, signed: bool
) -> None:
    seen: set[int] = set()
    with requests.Session() as session:

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=40, deadline=None)
        def each(case: Any) -> None:
            drawn = case.as_transport_kwargs(base_url=f"http://127.0.0.1:{receiver.port}")
            drawn.pop("timeout", None)
            prepared = session.prepare_request(requests.Request(**drawn))
            if signed:
                body: Any = prepared.body or b""
                raw: bytes = body.encode() if isinstance(body, str) else body
                prepared.headers.update(_SIGN(raw, f"msg_{hash(raw)}"))
            response = session.send(prepared, timeout=patient())
            seen.add(response.status_code)
            case.validate_response(response, checks=CHECKS)

        each()
    assert (202 in seen) == signed
