"""What the registration could not do in its request is done later, when its target answers.

Owns two commands, each with the breaker of its target. Promises: a user is provisioned and charged
once, however often the target is asked, since every attempt carries the same key; while a target is
down its commands wait and spend no attempt; no transaction is open while a target is asked.
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

_WITHIN = 1.0
# An outage spends no attempt; these are for a target that answers, and answers badly.
_PATIENCE = Exponential(base="500ms", cap="1h", attempts=20)

handlers = Handlers("accounts")
handlers.breaker("accounts", consecutive_failures=5, first_break="5s", longest_break="1m")
handlers.breaker("payments", minimum_calls=50)


@handlers.lifespan
async def accounts_service() -> AsyncIterator[AccountsService]:
    """One client for the worker's whole life."""
    async with httpx.AsyncClient(base_url=os.environ["ACCOUNTS_URL"], trust_env=False) as http:
        yield http


@handlers.lifespan
async def payment_gateway() -> AsyncIterator[PaymentGateway]:
    """One client for the worker's whole life."""
    async with httpx.AsyncClient(base_url=os.environ["PAYMENTS_URL"], trust_env=False) as http:
        yield http


@handlers.command(
    "accounts.provision", queue="accounts", timeout="5s", breaker="accounts", retry=_PATIENCE
)
async def provision(
    wanted: ProvisionAccounts, ctx: CommandContext, service: AccountsService
) -> None:
    """Ask first, then note it: the first use of ctx.connection opens the transaction."""
    try:
        await provisioning.provision(service, wanted, ctx.correlation_id, within=_WITHIN)
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
    "accounts.charge", queue="payments", timeout="5s", breaker="payments", retry=_PATIENCE
)
async def charge(wanted: ChargeFee, ctx: CommandContext, gateway: PaymentGateway) -> None:
    """Ask, then note it: an answer that was lost after the charge comes to the next attempt."""
    try:
        await provisioning.charge(gateway, wanted, ctx.correlation_id, within=_WITHIN)
    except UnavailableError as error:
        raise Retry(after=error.after, reason=str(error)) from error
    except RefusedError as error:
        raise Reject(str(error)) from error
    await ctx.connection.execute(
        "UPDATE registration.users SET charged_at = clock_timestamp()"
        " WHERE user_id = $1 AND charged_at IS NULL",
        wanted.user_id,
    )
