"""An endpoint of webhooks: `[endpoints.NAME]`.

Known limit: whether its secret files can be read, and whether its name is a row's already, shows
when a worker starts.
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


# Without a pattern in the schema: editors know names of tables by `additionalProperties`.
EndpointName = Annotated[str, AfterValidator(_name), Schema({"type": "string"})]


class Endpoint(Section):
    """A URL that gets webhooks. A row of `endpoints`, which workers write when they start."""

    url: Annotated[str, AfterValidator(_url)] = Field(
        "", description="Where deliveries are posted; https, or http where nobody is on the way."
    )
    types: Annotated[Names, AfterValidator(_types)] = Field(
        (),
        max_length=100,
        description='What it gets: types, "user.*" for all that begin so, "*" for all.',
    )
    tenant: str | None = Field(
        None, description="It gets only what is sent for this tenant; unset: for any, and for none."
    )
    secret_file: Path | None = Field(
        None, description="File with the secret that signs: whsec_ and base64."
    )
    old_secret_file: Path | None = Field(
        None,
        description="File with a secret that signs beside it. Set it to the old one's while the "
        "receiving side changes over.",
    )
    ordered: bool = Field(
        default=False,
        description="Deliver what has one ordering key in order. Set it where the receiving side "
        "cannot do without; a delivery that fails holds up its key.",
    )
    events: bool = Field(
        default=False,
        description="Whether events that are emitted reach it, too, where its types match: else "
        "only what is sent as a webhook. Set it where the receiving side is to know of each fact.",
    )
    rate: RateLimit | None = Field(
        None,
        description='At most so many deliveries, such as "10/s". Set it where the receiving side '
        "answers 429.",
    )
    concurrency: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Most deliveries at once, over all workers. Lower it where the receiving side "
        "slows down under many.",
    )
    disable_after: Duration = Field(
        timedelta(days=5),
        description="How long it may fail without a success until it is disabled. Lengthen it for "
        "one that is away for longer.",
    )
