"""A drain over several folders writes receipts in the order in which they were spooled.

Receipts are appended one after the other, as by a sender that waits for each answer, to any folder,
also while the drain reads: between two folders, and while a page is being stored.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from uuid import uuid4

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.inbound.spool import drain as draining
from inboxd.inbound.spool import pages as reading
from inboxd.inbound.spool.boot_ids import Stamps
from inboxd.inbound.spool.drain import Drain
from inboxd.inbound.spool.encoding import encode
from inboxd.inbound.spool.files import SystemFiles
from inboxd.inbound.spool.folder import own
from inboxd.inbound.spool.log import Appender
from inboxd.inbound.spool.markers import Gates
from inboxd.model.receipt import Receipt, ReceivedEvent
from inboxd.store.receipts import Stored
from tests.support.verdicts import safety

# The number of a folder, and the length of a receipt's body.
Step = tuple[int, int]


class Host(SystemFiles):
    """Processes that spool on one host, also while a drain reads a folder."""

    def __init__(self, path: Path, count: int) -> None:
        """Each process has its own folder."""
        self.path = path
        self._owned = [own(path) for _ in range(count)]
        self._logs = [
            Appender(each.folder, SystemFiles(), quota=1 << 30, segment_bytes=1 << 12)
            for each in self._owned
        ]
        self._stamps = Stamps(path)
        self._gates = Gates(path)
        self._stored = Event()
        self.written: list[int] = []
        self.appended = 0
        # Steps before each reading of a folder: receipts are appended, or a page is stored.
        self.looks: deque[Sequence[Step] | None] = deque()

    def names(self, folder: Path) -> list[str]:
        """List a folder, after the steps before that reading."""
        happens = self.looks.popleft() if self.looks else ()
        if happens is None:
            self._stored.clear()
            self._stored.wait(0.005)
        else:
            self.append(happens)
        return super().names(folder)

    def append(self, steps: Sequence[Step]) -> None:
        """Spool receipts; a closed gate refuses them, as in operation."""
        for folder, length in steps:
            try:
                with self._gates.opened(["results"], within=0.0):
                    self._gates.mark("results")
                    receipt = numbered(self.appended, length)
                    self._logs[folder % len(self._logs)].append(
                        [encode(self._stamps.make(), receipt)]
                    )
                    self.appended += 1
            except TimeoutError:
                continue

    async def store(self, page: Sequence[Receipt]) -> list[Stored]:
        """Write a page, in place of the database."""
        await anyio.lowlevel.checkpoint()
        self.written += [int(each.body.split()[0]) for each in page]
        self._stored.set()
        return [Stored([each.receipt_id], "stored") for each in page]

    def drain(self) -> Drain:
        """A drain of the whole host."""
        return Drain(self.path, self, self._gates, self.store, remembers=None)

    def end(self) -> None:
        for each in self._owned:
            each.release()


def numbered(number: int, length: int) -> Receipt:
    """A receipt whose body has its number."""
    return Receipt(
        receipt_id=uuid4(),
        received_at=datetime.now(UTC),
        source="results",
        body=f"{number} {'x' * length}".encode(),
        content_type="application/json",
        headers="{}",
        address="192.0.2.7",
        key_id="2026",
        events=[ReceivedEvent(event_id=uuid4(), type="match.result", payload="1")],
    )


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes pages so small that a few receipts fill several of them."""
    with monkeypatch.context() as patch:
        patch.setattr(draining, "_PAGE_ROWS", 4)
        patch.setattr(reading, "_PAGE_BYTES", 600)
        yield


async def _drain(host: Host, rows: int) -> None:
    drain = host.drain()
    drain._size.now = rows  # as after an outage
    await drain.finish()
    host.looks.clear()
    await host.drain().finish()


STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 300)), max_size=6)


@pytest.mark.usefixtures("pages")
@given(
    folders=st.integers(1, 4),
    rows=st.integers(1, 4),
    before=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 300)), max_size=40),
    looks=st.lists(st.none() | STEPS, max_size=40),
)
def test_receipts_are_written_in_the_order_of_spooling(
    folders: int, rows: int, before: Sequence[Step], looks: Sequence[Sequence[Step] | None]
) -> None:
    with TemporaryDirectory() as folder:
        host = Host(Path(folder), folders)
        host.append(before)
        host.looks.extend(looks)
        anyio.run(_drain, host, rows)
        host.end()
        with safety():
            assert host.written == list(range(host.appended))


@pytest.mark.anyio
async def test_a_receipt_spooled_between_two_folders_waits_for_an_older_one(
    tmp_path: Path,
) -> None:
    """The first folder gets a receipt after it was read, and then the second a newer one."""
    for looks in range(1, 9):
        host = Host(tmp_path / str(looks), 2)
        host.append([(0, 10), (1, 10)])
        host.looks.extend([()] * looks + [[(0, 10), (1, 10)], [(1, 10), (0, 10)]])
        await _drain(host, 4)
        with safety():
            assert host.written == list(range(host.appended)), looks
