"""The registration: `POST /users` saves a user, and has the accounts made now or later.

Owns one endpoint. Promises: the accounts service is asked in the request first, for at most
`WITHIN` seconds in all; whatever comes of it, the user's registration succeeds; what could not be
done is a command in the same transaction as the user's row, one for each user however often they
register; the answer names the correlation id, which the targets get too. No transaction is open
while the accounts service is asked.
Known limits: whoever reaches it may register; each request pays the wait for a slow target, since
the service has no breaker of its own.
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

# Both tries together. A loop of two with one deadline needs no library for retries: what has to be
# tried for longer is not tried here.
WITHIN = 1.2
_TRIES, _EACH, _PAUSE = 2, 0.5, 0.1
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
    """What a person sends."""

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
    """Try, save, answer."""
    body = await _read(request)
    if body is None:
        return JSONResponse({"error": f"at most {_LARGEST_BODY} bytes"}, 413)
    try:
        user = NewUser.model_validate_json(body)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)
        return JSONResponse({"error": "not a user", "fields": wrong}, 422)
    # Made of the address: who registers again asks for the accounts of the same user.
    wanted = ProvisionAccounts(user_id=uuid5(NAMESPACE_URL, user.email), email=user.email)
    correlation_id = request.headers.get("X-Correlation-Id", "")[:100] or str(uuid4())
    is_done = await try_now(request.app.state.accounts, wanted, correlation_id)
    async with request.app.state.pool.acquire() as connection:
        saved = await save(connection, wanted, correlation_id, is_done=is_done)
    headers = {"X-Correlation-Id": saved["correlation_id"]}
    return JSONResponse({"user_id": str(wanted.user_id), **saved}, 201, headers)


async def try_now(http: httpx.AsyncClient, wanted: ProvisionAccounts, correlation_id: str) -> bool:
    """Whether the accounts are there, after a try and a second one."""
    with anyio.move_on_after(WITHIN):
        for _ in range(_TRIES):
            try:
                await provision(http, wanted, correlation_id, within=_EACH)
            except UnavailableError:
                await anyio.sleep(_PAUSE)
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
    """The user and what is left to do, or nothing."""
    async with connection.transaction():
        row = await connection.fetchrow(
            _SAVE, wanted.user_id, wanted.email, correlation_id, is_done
        )
        if row is None:
            raise LookupError("The statement returns a row always.")
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
    """At most one unsettled command of a user and an operation, however often they register."""
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
    """The body, unless it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST_BODY:
            return None
    return bytes(body)
