"""People who register at a steady rate, whatever the targets do.

Owns the answers that they got. Promises: each person sends one request; every twentieth person
sends two at the same moment, as a double click does.
"""

from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import anyio
import httpx

_TIMEOUT = 15.0
_TWICE_EVERY = 20


@dataclass(slots=True)
class Answered:
    """One request to the registration, and its answer."""

    email: str
    correlation_id: str
    seconds: float
    status: int | None
    body: dict[str, Any]
    trouble: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the answer is 201 and names a correlation id."""
        return self.status == 201 and bool(self.body["correlation_id"])


@dataclass(slots=True)
class People:
    """People who register; `answers` has one entry for each request."""

    port: int
    answers: list[Answered] = field(default_factory=list)

    async def register(self, users: int, seconds: float) -> None:
        """Have `users` people register, spread evenly over `seconds`."""
        url = f"http://127.0.0.1:{self.port}"
        limits = httpx.Limits(max_connections=100)
        begun = monotonic()
        async with (
            httpx.AsyncClient(
                base_url=url, timeout=_TIMEOUT, limits=limits, trust_env=False
            ) as http,
            anyio.create_task_group() as group,
        ):
            for number in range(users):
                await anyio.sleep(max(0.0, begun + seconds * number / users - monotonic()))
                for _ in range(2 if number % _TWICE_EVERY == 0 else 1):
                    group.start_soon(self._register, http, number)

    async def _register(self, http: httpx.AsyncClient, number: int) -> None:
        email, correlation_id = f"user{number}@example.com", f"visit-{number}"
        begun = monotonic()
        status: int | None = None
        body: dict[str, Any] = {}
        trouble = ""
        try:
            headers = {"X-Correlation-Id": correlation_id}
            answer = await http.post("/users", json={"email": email}, headers=headers)
            status = answer.status_code
            body = answer.json() if status == 201 else {}
            trouble = "" if status == 201 else answer.text
        except httpx.HTTPError as error:
            trouble = repr(error)
        took = monotonic() - begun
        self.answers.append(Answered(email, correlation_id, took, status, body, trouble))
