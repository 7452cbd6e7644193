"""Bounds of the receiver: requests and bytes in flight, and the rates of sources and addresses.

Without room, requests with a slow body end first, beginning with the address that has most of them;
then requests of other addresses that use more than their share. Bodies in flight never exceed their
limit of bytes, and at most MOST_ADDRESSES addresses are remembered: a forgotten one begins with a
full bucket. Known limits: the counts leave out one read (256 KB) per connection whose request is
not parsed yet, and pages whose requests were answered 503 while the database did not answer, until
those writes end (`inbound.http.connections` pages of 8 MiB).
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from inboxd.model.addresses import subscriber
from inboxd.settings.values import Rate

MOST_ADDRESSES = 20_000


# A body may take _GRACE_SECONDS, plus one second per _SLOWEST_RATE bytes: 1 MiB in 21 s.
_GRACE_SECONDS, _SLOWEST_RATE = 1.0, 50 * 1024
# Seconds until the next search, if the last one did not free enough room.
_SEARCH_AGAIN_SECONDS = 0.05
# The share of the bounds that one address may use for incomplete bodies when there is no room.
_SHARE = 1 / 4


def lags(size: int, seconds: float) -> bool:
    """Whether a body of this size is slower than the slowest rate that is accepted."""
    return size < (seconds - _GRACE_SECONDS) * _SLOWEST_RATE


class ComingBody:
    """An incomplete body. give_way: ends its request, and frees its room."""

    __slots__ = ("address", "began", "give_way", "size")

    def __init__(self, address: str | None, give_way: Callable[[], None], now: float) -> None:
        self.address = address
        self.give_way = give_way
        self.began = now
        self.size = 0

    def is_slow(self, now: float) -> bool:
        return lags(self.size, now - self.began)

    def rate(self, now: float) -> float:
        """The rate in bytes per second."""
        return self.size / max(now - self.began, _GRACE_SECONDS)


class InFlight:
    __slots__ = (
        *("_clock", "_look_at", "bytes", "coming", "most_bytes", "most_requests", "requests"),
    )

    def __init__(
        self, most_requests: int, most_bytes: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.requests = 0
        self.bytes = 0
        self.most_requests = most_requests
        self.most_bytes = most_bytes
        # Incomplete bodies.
        self.coming = set[ComingBody]()
        self._clock = clock
        self._look_at = 0.0

    def begin(self, address: str | None = None) -> bool:
        """Take room for a request of this address; False: there is no room."""
        if not self._has_room(1, 0):
            self._make_room(1, 0, address)
        if not self._has_room(1, 0):
            return False
        self.requests += 1
        return True

    def reserve(
        self, size: int, address: str | None = None, asking: ComingBody | None = None
    ) -> bool:
        """Take room for `size` more bytes; False: there is no room. asking: is not ended for it."""
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
        """Register a body; it is in `coming` until it is discarded from there."""
        body = ComingBody(address, give_way, self._clock())
        self.coming.add(body)
        return body

    def _make_room(
        self, requests: int, size: int, address: str | None, asking: ComingBody | None = None
    ) -> None:
        now = self._clock()
        if now < self._look_at:
            return
        self._end_slow(requests, size, asking, now)
        self._end_greedy(requests, size, address, now)
        if not self._has_room(requests, size):
            self._look_at = now + _SEARCH_AGAIN_SECONDS

    def _end_slow(self, requests: int, size: int, asking: ComingBody | None, now: float) -> None:
        """All of the address that has most of them; of other addresses only if needed."""
        slow = [body for body in self.coming if body is not asking and body.is_slow(now)]
        held = Counter(body.address for body in slow)
        slow.sort(key=lambda body: (-held[body.address], body.rate(now)))
        for body in slow:
            if body.address != slow[0].address and self._has_room(requests, size):
                return
            self._end(body)

    def _end_greedy(self, requests: int, size: int, address: str | None, now: float) -> None:
        """If only one address has requests, it may use all room."""
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
    """A rate as a token bucket: seconds per token, and seconds until a full bucket."""

    each: float
    full: float


def allowance(rate: Rate, burst: int | None) -> Allowance:
    """The settings as an allowance; the default burst is the tokens of one second, minimum 1."""
    each = rate.seconds / rate.rows
    most = max(1, round(1 / each)) if burst is None else burst
    return Allowance(each, each * most)


class TokenBucket:
    """The rate limit of one source or address, stored as the time when its bucket is full again."""

    __slots__ = ("_full_at", "allowance")

    def __init__(self, allowed: Allowance) -> None:
        self.allowance = allowed
        self._full_at = 0.0

    def take(self, now: float) -> float:
        """Take a token and return 0; else return the seconds until the next token."""
        each, full = self.allowance
        full_at = max(self._full_at, now) + each
        wait = full_at - now - full
        if wait > _ROUNDING_SECONDS:
            return wait
        self._full_at = full_at
        return 0.0


class AddressBuckets:
    def __init__(self, allowed: Allowance, most: int = MOST_ADDRESSES) -> None:
        self._allowance = allowed
        self._most = most
        # The least recently used bucket is the first.
        self._buckets: dict[str, TokenBucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, address: str, now: float) -> float:
        key = subscriber(address)
        bucket = self._buckets.pop(key, None) or TokenBucket(self._allowance)
        if len(self._buckets) >= self._most:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[key] = bucket
        return bucket.take(now)


# Seconds; a smaller wait counts as no wait, since times are floats.
_ROUNDING_SECONDS = 1e-6
