"""A user gets an account of the accounts service, and is charged by the payment gateway.

Owns the two operations: their commands, and what each asks of its target. The service asks in the
request, the worker later: both by the same function, so that both carry the same key.
"""

from typing import ClassVar
from uuid import UUID

import httpx
from pydantic import BaseModel

from accounts.contract import ask, key_of

FEE = 500  # cents


class ProvisionAccounts(BaseModel):
    """Have the accounts of one user made."""

    inboxd_command: ClassVar[str] = "accounts.provision"

    user_id: UUID
    email: str


class ChargeFee(BaseModel):
    """Have one user charged the fee of the registration."""

    inboxd_command: ClassVar[str] = "accounts.charge"

    user_id: UUID
    cents: int


async def provision(
    http: httpx.AsyncClient, wanted: ProvisionAccounts, correlation_id: str, *, within: float
) -> None:
    """Ask the accounts service. Raises UnavailableError or RefusedError."""
    await ask(
        http,
        "/accounts",
        wanted.model_dump(mode="json"),
        key=key_of("provision-accounts", wanted.user_id),
        correlation_id=correlation_id,
        within=within,
    )


async def charge(
    http: httpx.AsyncClient, wanted: ChargeFee, correlation_id: str, *, within: float
) -> None:
    """Ask the payment gateway. Raises UnavailableError or RefusedError."""
    await ask(
        http,
        "/charges",
        wanted.model_dump(mode="json"),
        key=key_of("charge-fee", wanted.user_id),
        correlation_id=correlation_id,
        within=within,
    )
