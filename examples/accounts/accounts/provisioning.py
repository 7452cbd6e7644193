"""The accounts service creates the accounts of a user; the payment gateway charges the fee.

Owns the two operations: their commands, and the request that each sends to its target. The
registration and the worker call the same function, so both send the same key.
"""

from typing import ClassVar
from uuid import UUID

import httpx
from pydantic import BaseModel

from accounts.contract import ask, key_of

FEE = 500  # cents


class ProvisionAccounts(BaseModel):
    """Create the accounts of one user."""

    inboxd_command: ClassVar[str] = "accounts.provision"

    user_id: UUID
    email: str


class ChargeFee(BaseModel):
    """Charge one user the registration fee."""

    inboxd_command: ClassVar[str] = "accounts.charge"

    user_id: UUID
    cents: int


async def provision(
    http: httpx.AsyncClient, wanted: ProvisionAccounts, correlation_id: str, *, within: float
) -> None:
    """Call the accounts service. Raises UnavailableError or RefusedError."""
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
    """Call the payment gateway. Raises UnavailableError or RefusedError."""
    await ask(
        http,
        "/charges",
        wanted.model_dump(mode="json"),
        key=key_of("charge-fee", wanted.user_id),
        correlation_id=correlation_id,
        within=within,
    )
