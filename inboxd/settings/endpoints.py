"""Endpoints of webhooks: `[endpoints.NAME]`.

Known limit: a worker finds out when it starts whether the secret files can be read, and whether a
row has the endpoint's name already.
"""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic import WithJsonSchema as Schema

from inboxd.model.endpoints import name_problem, type_problem, url_problem
from inboxd.settings.base import Section
from inboxd.settings.values import Duration, Names, RateLimit


def _name(name: str) -> str:
    if problem := name_problem(name):
        raise ValueError(f"the name of an endpoint {problem}")
    return name


def _url(url: str) -> str:
    if url and (problem := url_problem(url)):
        raise ValueError(f"the URL {problem}")
    return url


def _types(types: tuple[str, ...]) -> tuple[str, ...]:
    for each in types:
        if problem := type_problem(each):
            raise ValueError(f"{each!r:.60} {problem}")
    return types


# No pattern in the schema: editors complete table names by `additionalProperties`.
EndpointName = Annotated[str, AfterValidator(_name), Schema({"type": "string"})]


class Endpoint(Section):
    """A URL that gets webhooks. Workers write it to a row of `endpoints` when they start."""

    url: Annotated[str, AfterValidator(_url)] = Field(
        "",
        description="URL that deliveries are posted to: https, or http inside a network that "
        "you trust.",
    )
    types: Annotated[Names, AfterValidator(_types)] = Field(
        (),
        max_length=100,
        description='Event types that the endpoint gets: single types, "user.*" for all with this '
        'prefix, "*" for all.',
    )
    tenant: str | None = Field(
        None,
        description="The only tenant whose webhooks the endpoint gets; unset: webhooks of every "
        "tenant, and webhooks without a tenant.",
    )
    secret_file: Path | None = Field(
        None, description="File with the signing secret: whsec_ and base64."
    )
    old_secret_file: Path | None = Field(
        None,
        description="File with a second signing secret. Set it to the old secret while the "
        "receiving side changes over.",
    )
    ordered: bool = Field(
        default=False,
        description="Whether deliveries with the same ordering key are made in order. Set it if "
        "the receiving side needs the order; a delivery that fails holds up its key.",
    )
    events: bool = Field(
        default=False,
        description="Whether the endpoint also gets emitted events of its types, besides webhooks. "
        "Set it to true if the receiving side needs each event.",
    )
    rate: RateLimit | None = Field(
        None,
        description='Maximum rate of deliveries, such as "10/s". Set it if the receiving side '
        "answers 429.",
    )
    concurrency: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Maximum deliveries at once, over all workers. Lower it if the receiving side "
        "slows down under many deliveries.",
    )
    disable_after: Duration = Field(
        timedelta(days=5),
        description="Time without a success, while deliveries fail, after which the endpoint is "
        "disabled. Lengthen it for an endpoint that is down for longer.",
    )
