"""What bounds the receiver: requests and bytes in flight, and the rates of sources and addresses.

Owns what is counted, and who gives way when there is no room: a request whose
body comes too slowly, of the address that has most of them first; then one of another address that
has more than its share. Promises: memory is bounded, whatever arrives: the bodies in flight never
exceed their bytes, and so many addresses are remembered and no more; who announces a body and does
not send it holds up nobody. Known limits: an address that is forgotten, since many others came
after it, begins with a full bucket; beside the bodies in flight are one read of each connection
whose request was not looked at yet (256 KB), and the pages of requests that were answered 503 while
the database did not answer, until those writes end (`inbound.http.connections` pages of 8 MiB).
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from inboxd.model.addresses import subscriber
from inboxd.settings.values import Rate

MOST_ADDRESSES = 20_000


# A body may always take so many seconds, and besides a second for so many bytes: 1 MiB in 20 s.
_GRACE, _SLOWEST = 1.0, 50 * 1024
# Seconds before they are looked for again where there were not enough of them.
_LOOK_AGAIN = 0.05
# Where there is no room, one address may have this part of it with bodies that are coming.
_SHARE = 1 / 4


def lags(size: int, seconds: float) -> bool:
    """Whether less has come in this time than of any sender that will be done in time."""
    return size < (seconds - _GRACE) * _SLOWEST


class ComingBody:
    """A body of which a part has still to come. give_way: ends its request, and leaves its room."""

    __slots__ = ("address", "began", "give_way", "size")

    def __init__(self, address: str | None, give_way: Callable[[], None], now: float) -> None:
        """Nothing has come; now: in seconds."""
        self.address = address
        self.give_way = give_way
        self.began = now
        self.size = 0

    def is_slow(self, now: float) -> bool:
        """Whether it comes so slowly that it gives way to others."""
        return lags(self.size, now - self.began)

    def rate(self, now: float) -> float:
        """Bytes a second."""
        return self.size / max(now - self.began, _GRACE)


class InFlight:
    """Requests that are being answered, and the bytes of their bodies that have come."""

    __slots__ = (
        *("_clock", "_look_at", "bytes", "coming", "most_bytes", "most_requests", "requests"),
    )

    def __init__(
        self, most_requests: int, most_bytes: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with nothing in flight; clock: in seconds."""
        self.requests = 0
        self.bytes = 0
        self.most_requests = most_requests
        self.most_bytes = most_bytes
        # Bodies of which a part has still to come.
        self.coming = set[ComingBody]()
        self._clock = clock
        self._look_at = 0.0

    def begin(self, address: str | None = None) -> bool:
        """Take room for a request of this address; False: there is none."""
        if not self._has_room(1, 0):
            self._make_room(1, 0, address)
        if not self._has_room(1, 0):
            return False
        self.requests += 1
        return True

    def reserve(
        self, size: int, address: str | None = None, asking: ComingBody | None = None
    ) -> bool:
        """Take room for so many bytes more; False: there is none. asking: it gives no way."""
        if not self._has_room(0, size):
            self._make_room(0, size, address, asking)
        if not self._has_room(0, size):
            return False
        self.bytes += size
        return True

    def _has_room(self, requests: int, size: int) -> bool:
        return (
            self.requests + requests <= self.most_requests and self.bytes + size <= self.most_bytes
        )

    def expect(self, address: str | None, give_way: Callable[[], None]) -> ComingBody:
        """A body is coming, until it is discarded from `coming`."""
        body = ComingBody(address, give_way, self._clock())
        self.coming.add(body)
        return body

    def _make_room(
        self, requests: int, size: int, address: str | None, asking: ComingBody | None = None
    ) -> None:
        """Let bodies give way that are still to come, as many as it takes; or none are left."""
        now = self._clock()
        if now < self._look_at:
            return
        self._end_slow(requests, size, asking, now)
        self._end_greedy(requests, size, address, now)
        if not self._has_room(requests, size):
            self._look_at = now + _LOOK_AGAIN

    def _end_slow(self, requests: int, size: int, asking: ComingBody | None, now: float) -> None:
        """Let slow ones give way: those of the address with most of them, others if it takes more.

        The slowest first.
        """
        slow = [body for body in self.coming if body is not asking and body.is_slow(now)]
        held = Counter(body.address for body in slow)
        slow.sort(key=lambda body: (-held[body.address], body.rate(now)))
        for body in slow:
            if body.address != slow[0].address and self._has_room(requests, size):
                return
            self._end(body)

    def _end_greedy(self, requests: int, size: int, address: str | None, now: float) -> None:
        """Let those of other addresses give way that have more than their share; the slowest first.

        Who is alone may have all of it.
        """
        count, weight = Counter[str | None](), Counter[str | None]()
        for body in self.coming:
            count[body.address] += 1
            weight[body.address] += body.size
        for body in sorted(self.coming, key=lambda body: body.rate(now)):
            if self._has_room(requests, size):
                return
            has = body.address
            if has != address and (
                count[has] > self.most_requests * _SHARE or weight[has] > self.most_bytes * _SHARE
            ):
                count[has] -= 1
                weight[has] -= body.size
                self._end(body)

    def _end(self, body: ComingBody) -> None:
        self.coming.discard(body)
        body.give_way()


class Allowance(NamedTuple):
    """A rate as a token bucket: seconds from one token to the next, and for a full bucket."""

    each: float
    full: float


def allowance(rate: Rate, burst: int | None) -> Allowance:
    """What settings allow; without a burst a bucket holds what a second brings, at least one."""
    each = rate.seconds / rate.rows
    most = max(1, round(1 / each)) if burst is None else burst
    return Allowance(each, each * most)


class TokenBucket:
    """The requests of one source or address.

    It is held as the time at which the bucket is full again.
    """

    __slots__ = ("_full_at", "allowance")

    def __init__(self, allowed: Allowance) -> None:
        """Begin full."""
        self.allowance = allowed
        self._full_at = 0.0

    def take(self, now: float) -> float:
        """Take a token: 0; or the seconds until there is one."""
        each, full = self.allowance
        full_at = max(self._full_at, now) + each
        wait = full_at - now - full
        if wait > _ROUNDING:
            return wait
        self._full_at = full_at
        return 0.0


class AddressBuckets:
    """The requests of each address, of so many addresses at most."""

    def __init__(self, allowed: Allowance, most: int = MOST_ADDRESSES) -> None:
        """Begin with all full."""
        self._allowance = allowed
        self._most = most
        # By the time of the last token that was taken: the oldest comes first.
        self._buckets: dict[str, TokenBucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, address: str, now: float) -> float:
        """As of one bucket."""
        key = subscriber(address)
        bucket = self._buckets.pop(key, None) or TokenBucket(self._allowance)
        if len(self._buckets) >= self._most:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[key] = bucket
        return bucket.take(now)


# A token that is a millionth of a second early is there.
_ROUNDING = 1e-6
