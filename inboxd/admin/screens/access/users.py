"""Users of the settings, and the check of their passwords.

Promises: an unknown user and a wrong password get the same answer, after the same work; a thread
compares few passwords at once; guesses are limited for each address and each user; a user who has
signed in from an address before can do so again, whatever is guessed elsewhere. Known limit: while
somebody guesses the password from many addresses, a user cannot sign in from a new one for a minute
or two.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final

import anyio
import anyio.to_thread

from inboxd.admin.answers import RequestRefused
from inboxd.admin.throttle import Throttle
from inboxd.model.addresses import subscriber
from inboxd.model.passwords import LONGEST, PasswordHash, decoy, read_password_hash
from inboxd.settings import AdminUser

# Each takes a quarter of a second of one core, and 32 MiB.
_AT_ONCE, _MOST_WAITING = 1, 8
# Wrong passwords, a second and at once: of a user from all addresses, of an address for all users.
_RATE, _BURST = 1 / 20, 10
# Pairs of a user and an address that are remembered because the user has signed in from there.
_MOST_PROVEN = 1_000


class Users:
    """There may be none, as after a reload."""

    def __init__(self, users: Iterable[AdminUser]) -> None:
        self._users: Mapping[str, AdminUser] = {each.name: each for each in users}
        self._hashes: Mapping[str, PasswordHash] = {
            name: read_password_hash(each.password_hash.get_secret_value())
            for name, each in self._users.items()
        }
        self._decoy = decoy(self._hashes.values())

    def __bool__(self) -> bool:
        return bool(self._users)

    def named(self, name: str) -> AdminUser | None:
        return self._users.get(name)

    def hash_of(self, name: str) -> PasswordHash:
        """The user's hash; for an unknown user a decoy, which no password matches."""
        return self._hashes.get(name, self._decoy)


class Passwords:
    def __init__(self) -> None:
        self._throttle: Final = Throttle(_RATE, _BURST)
        self._limiter = anyio.CapacityLimiter(_AT_ONCE)
        # The most recent last.
        self._proven: OrderedDict[tuple[str, ...], None] = OrderedDict()

    async def user(
        self, users: Users, name: str, password: str, address: str | None
    ) -> AdminUser | None:
        """None: name or password is wrong. Raises RequestRefused."""
        place = f"address {subscriber(address) if address else '-'}"
        both = (f"user {name}", place)
        names = [place] if both in self._proven else [*both]
        if (
            self._throttle.is_spent(names)
            or self._limiter.statistics().tasks_waiting >= _MOST_WAITING
        ):
            detail = "too many wrong passwords, or too many at once: try again in a minute"
            raise RequestRefused(HTTPStatus.TOO_MANY_REQUESTS, detail)
        self._throttle.spend(names)
        matches = len(password) <= LONGEST and await anyio.to_thread.run_sync(
            users.hash_of(name).matches, password, limiter=self._limiter
        )
        if not matches:
            return None
        self._throttle.forgive(names)
        self._proven[both] = None
        self._proven.move_to_end(both)
        if len(self._proven) > _MOST_PROVEN:
            self._proven.popitem(last=False)
        return users.named(name)
