"""What bounds the receiver: requests and bytes in flight, and the rates of sources and addresses.

Owns what is counted before a body is read. Promises: memory is bounded, whatever arrives: the
bodies in flight never exceed their bytes, and so many addresses are remembered and no more. Known
limit: an address that is forgotten, since many others came after it, begins with a full bucket.
"""

from typing import NamedTuple

from inboxd.model.addresses import subscriber
from inboxd.settings.values import Rate

MOST_ADDRESSES = 20_000


class InFlight:
    """Requests that are being answered, and the bytes of their bodies."""

    __slots__ = ("bytes", "most_bytes", "most_requests", "requests")

    def __init__(self, most_requests: int, most_bytes: int) -> None:
        """Begin with nothing in flight."""
        self.requests = 0
        self.bytes = 0
        self.most_requests = most_requests
        self.most_bytes = most_bytes

    @property
    def is_full(self) -> bool:
        """Whether there is no room for one more request."""
        return self.requests >= self.most_requests

    def reserve(self, size: int) -> bool:
        """Take room for so many bytes more; False: there is none."""
        if self.bytes + size > self.most_bytes:
            return False
        self.bytes += size
        return True


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
    """The requests of one source. It is held as the time at which the bucket is full again."""

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
