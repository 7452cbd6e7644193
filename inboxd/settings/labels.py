"""Names and links beside ids: `[tenants]`, `[links]`.

Promises: a link leads to `http` or `https`, and to a host that no row chooses; what a row puts into
it is percent-encoded. Known limit: the query is tried when names are asked for, not here.
"""

import re
from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from inboxd.settings.base import Section
from inboxd.settings.values import Duration

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_LONGEST = 1024


def _template(*allowed: str) -> AfterValidator:
    """A check of a link's template, in which these may be replaced."""

    def check(text: str) -> str:
        named = PLACEHOLDER.findall(text)
        if not named or set(named) - set(allowed):
            among = " or ".join(f"{{{each}}}" for each in allowed)
            raise ValueError(f"names what to put in as {among}, and nothing else in braces")
        if len(text) > _LONGEST or not text.isprintable() or " " in text:
            raise ValueError(f"is one URL without spaces, of at most {_LONGEST} characters")
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("begins with http:// or https:// and a host")
        if "{" in parts.netloc or "@" in parts.netloc:
            raise ValueError("has a host of its own: nothing is put in there, and no login")
        return text

    return AfterValidator(check)


class TenantNames(Section):
    """The names of tenants, which lists and details show beside their ids."""

    query: str | None = Field(
        None,
        min_length=1,
        description="A SELECT of two columns, a tenant's id and its name, run read-only by the "
        "role of the command. With $1, an array of ids, it is asked for those alone, else for all, "
        "of which 10,000 are taken. Set it to see names instead of ids.",
    )
    timeout: Duration = Field(
        timedelta(seconds=1),
        description="What the query gets for its answer; then ids are shown. Raise it if names are "
        "missing since it is slow.",
    )
    keep: Duration = Field(
        timedelta(minutes=5),
        description="How long an answer is used again by one process. Lower it if a new name is "
        "to be seen sooner.",
    )


class Links(Section):
    """Where else to look: URLs that details show, with what the row has put in."""

    entity: Annotated[str, _template("entity_type", "entity_id", "tenant")] | None = Field(
        None,
        description="The page of an entity: {entity_type}, {entity_id} and {tenant} are replaced. "
        "Set it to get from a row to the customer, order or user that it is about.",
    )
    trace: Annotated[str, _template("trace_id")] | None = Field(
        None,
        description="The page of a trace: {trace_id} is replaced. Set it if producers send "
        "traceparent.",
    )
    tenant: Annotated[str, _template("tenant")] | None = Field(
        None, description="The page of a tenant: {tenant} is replaced. Set it as `entity`."
    )
