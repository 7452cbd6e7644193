"""Names and links beside ids: `[tenants]`, `[links]`.

Promises: a link leads to `http` or `https`, and to a host that no row chooses; values of a row are
percent-encoded in it. Known limit: the query is tried when names are needed, not here.
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
    """Return a validator of a link's template, in which the names of `allowed` are replaced."""

    def check(text: str) -> str:
        named = PLACEHOLDER.findall(text)
        if not named or set(named) - set(allowed):
            among = " or ".join(f"{{{each}}}" for each in allowed)
            raise ValueError(f"must have a placeholder, {among}, and nothing else in braces")
        if len(text) > _LONGEST or not text.isprintable() or " " in text:
            raise ValueError(f"must be one URL without spaces, of at most {_LONGEST} characters")
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must begin with http:// or https:// and a host")
        if "{" in parts.netloc or "@" in parts.netloc:
            raise ValueError("must have a fixed host, without a placeholder or a login")
        return text

    return AfterValidator(check)


class TenantNames(Section):
    """The names of tenants, which lists and details show beside their ids."""

    query: str | None = Field(
        None,
        min_length=1,
        description="A SELECT of two columns, a tenant's id and its name, run read-only with the "
        "database role of the command that asks. With the parameter $1, an array of ids, it must "
        "return these tenants; without it, all tenants, of which at most 10,000 are used. Set it "
        "to see names instead of ids.",
    )
    timeout: Duration = Field(
        timedelta(seconds=1),
        description="Time limit of the query; after it ids are shown. Raise it if names are "
        "missing because the query is slow.",
    )
    keep: Duration = Field(
        timedelta(minutes=5),
        description="Time for which a process reuses an answer. Lower it if new names must appear "
        "sooner.",
    )


class Links(Section):
    """Links to other systems, shown in details; values of the row are inserted."""

    entity: Annotated[str, _template("entity_type", "entity_id", "tenant")] | None = Field(
        None,
        description="Link to an entity; {entity_type}, {entity_id} and {tenant} are replaced. Set "
        "it to open the customer, order or user that a row is about.",
    )
    trace: Annotated[str, _template("trace_id")] | None = Field(
        None,
        description="Link to a trace; {trace_id} is replaced. Set it if producers send "
        "traceparent.",
    )
    tenant: Annotated[str, _template("tenant")] | None = Field(
        None,
        description="Link to a tenant; {tenant} is replaced. Set it to open the tenant in another "
        "system.",
    )
