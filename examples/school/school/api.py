"""The school's own service: `POST /activities` publishes an activity.

Owns one endpoint. Promises: after a 201 the activity and its event are saved, both in one
transaction, so neither exists without the other; an invalid request gets the reason, and saves
nothing. The service needs no worker.
Known limit: the endpoint has no authentication.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import asyncpg
from pydantic import BaseModel, Field, StringConstraints, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from inboxd.client import Inbox
from school.facts import ActivityPublished

_LARGEST_BODY = 65_536
_inbox = Inbox()


class NewActivity(BaseModel):
    """The body of `POST /activities`."""

    class_id: Annotated[int, Field(ge=1, le=2**63 - 1)]
    # PostgreSQL's text type does not allow NUL.
    title: Annotated[
        str, StringConstraints(strip_whitespace=True, max_length=200, pattern=r"^[^\x00]+$")
    ]


def create() -> Starlette:
    """The service, on the database that SCHOOL_DSN names: `uvicorn --factory school.api:create`."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with asyncpg.create_pool(os.environ["SCHOOL_DSN"], min_size=1, max_size=5) as pool:
            app.state.pool = pool
            yield

    routes = [Route("/activities", publish, methods=["POST"])]
    return Starlette(routes=routes, lifespan=lifespan)


async def publish(request: Request) -> JSONResponse:
    """Validate, save, answer; a worker does the rest later."""
    body = await _read(request)
    if body is None:
        return JSONResponse({"error": f"the body has more than {_LARGEST_BODY} bytes"}, 413)
    try:
        activity = NewActivity.model_validate_json(body)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)
        return JSONResponse({"error": "the body is not a valid activity", "fields": wrong}, 422)
    async with request.app.state.pool.acquire() as connection:
        try:
            saved = await save(connection, activity)
        except asyncpg.ForeignKeyViolationError:
            return JSONResponse({"error": f"there is no class {activity.class_id}"}, 404)
    return JSONResponse(saved, 201)


async def save(
    connection: "asyncpg.Connection[asyncpg.Record]", activity: NewActivity
) -> dict[str, object]:
    """Save the activity and its event, or neither."""
    async with connection.transaction():
        number = await connection.fetchval(
            "INSERT INTO school.activities (class_id, title) VALUES ($1, $2) RETURNING id",
            activity.class_id,
            activity.title,
        )
        event = await _inbox.emit(
            connection,
            ActivityPublished(activity_id=number),
            source="school",
            entity_type="activity",
            entity_id=str(number),
        )
    return {"activity_id": number, "event_id": str(event.event_id)}


async def _read(request: Request) -> bytes | None:
    """The body, or None if it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST_BODY:
            return None
    return bytes(body)
