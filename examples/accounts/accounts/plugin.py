"""Commands that finish later what a registration could not finish in its request.

Owns two commands, each with a breaker for its target. Promises: each user is provisioned and
charged once, however many attempts that takes, since every attempt sends the same key; while a
breaker is open, its commands wait and spend no attempts; no transaction is open while a target is
called.
"""

import os
from collections.abc import AsyncIterator
from typing import Annotated

import httpx

from accounts import provisioning
from accounts.contract import RefusedError, UnavailableError
from accounts.provisioning import ChargeFee, ProvisionAccounts
from inboxd import CommandContext, Exponential, Handlers, Reject, Retry

AccountsService = Annotated[httpx.AsyncClient, "accounts"]
PaymentGateway = Annotated[httpx.AsyncClient, "payments"]

_CALL_SECONDS = 1.0
# An outage spends hardly any of these attempts: they are for a target that answers with errors.
_RETRY = Exponential(base="500ms", cap="1h", attempts=20)

handlers = Handlers("accounts")
handlers.breaker("accounts", consecutive_failures=5, first_break="5s", longest_break="1m")
handlers.breaker("payments", minimum_calls=50)


@handlers.lifespan
async def accounts_service() -> AsyncIterator[AccountsService]:
    """One HTTP client for the lifetime of the worker."""
    async with httpx.AsyncClient(base_url=os.environ["ACCOUNTS_URL"], trust_env=False) as http:
        yield http


@handlers.lifespan
async def payment_gateway() -> AsyncIterator[PaymentGateway]:
    """One HTTP client for the lifetime of the worker."""
    async with httpx.AsyncClient(base_url=os.environ["PAYMENTS_URL"], trust_env=False) as http:
        yield http


@handlers.command(
    "accounts.provision", queue="accounts", timeout="5s", breaker="accounts", retry=_RETRY
)
async def provision(
    wanted: ProvisionAccounts, ctx: CommandContext, service: AccountsService
) -> None:
    """Call the target first: the transaction opens at the first use of `ctx.connection`."""
    try:
        await provisioning.provision(service, wanted, ctx.correlation_id, within=_CALL_SECONDS)
    except UnavailableError as error:
        raise Retry(after=error.after, reason=str(error)) from error
    except RefusedError as error:
        raise Reject(str(error)) from error
    await ctx.connection.execute(
        "UPDATE registration.users SET provisioned_at = clock_timestamp()"
        " WHERE user_id = $1 AND provisioned_at IS NULL",
        wanted.user_id,
    )


@handlers.command(
    "accounts.charge", queue="payments", timeout="5s", breaker="payments", retry=_RETRY
)
async def charge(wanted: ChargeFee, ctx: CommandContext, gateway: PaymentGateway) -> None:
    """Call the target first. If the answer to a charge is lost, the next attempt receives it."""
    try:
        await provisioning.charge(gateway, wanted, ctx.correlation_id, within=_CALL_SECONDS)
    except UnavailableError as error:
        raise Retry(after=error.after, reason=str(error)) from error
    except RefusedError as error:
        raise Reject(str(error)) from error
    await ctx.connection.execute(
        "UPDATE registration.users SET charged_at = clock_timestamp()"
        " WHERE user_id = $1 AND charged_at IS NULL",
        wanted.user_id,
    )
