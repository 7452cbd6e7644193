"""The registration service: `POST /users` saves a user and has accounts created, now or later.

Owns one endpoint. Promises: each request calls the accounts service first, for at most
`CALL_SECONDS` in total; the registration succeeds, whatever that service answers; work that is left
becomes a command in the transaction that saves the user, at most one for each user and operation,
however often the user registers; the answer names the correlation id, which the targets receive
too. No transaction is open while the accounts service is called.
Known limits: the endpoint has no authentication; while the accounts service is slow, every request
waits for it, since the registration has no breaker of its own.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import NAMESPACE_URL, uuid4, uuid5

import anyio
import asyncpg
import httpx
from pydantic import BaseModel, StringConstraints, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from accounts.contract import RefusedError, UnavailableError
from accounts.provisioning import FEE, ChargeFee, ProvisionAccounts, provision
from inboxd.client import Inbox

# For both attempts together. Two attempts with one deadline need no retry library; longer retries
# are the command's task.
CALL_SECONDS = 1.2
_ATTEMPTS, _ATTEMPT_SECONDS, _PAUSE_SECONDS = 2, 0.5, 0.1
_LARGEST_BODY = 4_096
_inbox = Inbox()

_SAVE = """
    INSERT INTO registration.users AS u (user_id, email, correlation_id, provisioned_at)
    VALUES ($1, $2, $3, CASE WHEN $4 THEN clock_timestamp() END)
    ON CONFLICT (user_id)
    DO UPDATE SET provisioned_at = coalesce(u.provisioned_at, excluded.provisioned_at)
    RETURNING u.correlation_id, u.provisioned_at IS NULL AS pending, u.charged_at IS NULL AS owes
"""


class NewUser(BaseModel):
    """The body of `POST /users`."""

    email: Annotated[
        str,
        StringConstraints(
            strip_whitespace=True,
            to_lower=True,
            max_length=200,
            pattern=r"^[^\s@\x00]+@[^\s@\x00]+$",
        ),
    ]


def create() -> Starlette:
    """The service: `uvicorn --factory accounts.registration:create`.

    REGISTRATION_DSN names its database, ACCOUNTS_URL the accounts service.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        dsn, url = os.environ["REGISTRATION_DSN"], os.environ["ACCOUNTS_URL"]
        async with (
            asyncpg.create_pool(dsn, min_size=1, max_size=10) as pool,
            httpx.AsyncClient(base_url=url, trust_env=False) as accounts,
        ):
            app.state.pool, app.state.accounts = pool, accounts
            yield

    return Starlette(routes=[Route("/users", register, methods=["POST"])], lifespan=lifespan)


async def register(request: Request) -> JSONResponse:
    """Call the accounts service, save the user, answer 201."""
    body = await _read(request)
    if body is None:
        return JSONResponse({"error": f"the body has more than {_LARGEST_BODY} bytes"}, 413)
    try:
        user = NewUser.model_validate_json(body)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)
        return JSONResponse({"error": "the body is not a valid user", "fields": wrong}, 422)
    # The id is made of the address: a second registration is about the same user.
    wanted = ProvisionAccounts(user_id=uuid5(NAMESPACE_URL, user.email), email=user.email)
    correlation_id = request.headers.get("X-Correlation-Id", "")[:100] or str(uuid4())
    is_done = await try_now(request.app.state.accounts, wanted, correlation_id)
    async with request.app.state.pool.acquire() as connection:
        saved = await save(connection, wanted, correlation_id, is_done=is_done)
    headers = {"X-Correlation-Id": saved["correlation_id"]}
    return JSONResponse({"user_id": str(wanted.user_id), **saved}, 201, headers)


async def try_now(http: httpx.AsyncClient, wanted: ProvisionAccounts, correlation_id: str) -> bool:
    """Whether the accounts service confirmed, after at most two attempts."""
    with anyio.move_on_after(CALL_SECONDS):
        for _ in range(_ATTEMPTS):
            try:
                await provision(http, wanted, correlation_id, within=_ATTEMPT_SECONDS)
            except UnavailableError:
                await anyio.sleep(_PAUSE_SECONDS)
            except RefusedError:
                return False  # the command becomes a dead letter, which an operator sees
            else:
                return True
    return False


async def save(
    connection: "asyncpg.Connection[asyncpg.Record]",
    wanted: ProvisionAccounts,
    correlation_id: str,
    *,
    is_done: bool,
) -> dict[str, Any]:
    """Save the user and the commands for what is left to do, in one transaction."""
    async with connection.transaction():
        row = await connection.fetchrow(
            _SAVE, wanted.user_id, wanted.email, correlation_id, is_done
        )
        if row is None:
            raise LookupError("The statement always returns a row.")
        name = row["correlation_id"]
        if row["pending"]:
            await _send_once(connection, wanted, "accounts", name)
        if row["owes"]:
            fee = ChargeFee(user_id=wanted.user_id, cents=FEE)
            await _send_once(connection, fee, "payments", name)
    return {"correlation_id": name, "accounts": "pending" if row["pending"] else "ready"}


async def _send_once(
    connection: "asyncpg.Connection[asyncpg.Record]",
    command: ProvisionAccounts | ChargeFee,
    queue: str,
    correlation_id: str,
) -> None:
    """Send a command, unless the user has an unsettled one of this operation."""
    user = str(command.user_id)
    await _inbox.send(
        connection,
        command,
        queue=queue,
        unique_key=user,
        correlation_id=correlation_id,
        entity_type="user",
        entity_id=user,
    )


async def _read(request: Request) -> bytes | None:
    """The body, or None if it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST_BODY:
            return None
    return bytes(body)
