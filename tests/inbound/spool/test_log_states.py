"""A state machine of appends, failures, crashes, drains and lost answers: no receipt is lost."""

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inboxd.errors import SpoolBroken, SpoolFull
from inboxd.inbound.spool.log import Appender, Reader
from tests.inbound.spool.test_log import FOLDER, no, yes
from tests.support.volatile import VolatileFiles


class Spooling(RuleBasedStateMachine):
    """Each receipt that was answered reaches the database once, in its order."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = VolatileFiles(random.Random(3))
        self.sent = 0
        self.answered: list[bytes] = []
        self.database: list[bytes] = []
        self._start()

    def _start(self) -> None:
        self.log = Appender(FOLDER, self.disk, quota=2_000, segment_bytes=150)
        self.reader = Reader(FOLDER, self.disk)

    @rule(count=st.integers(1, 4))
    def append(self, count: int) -> None:
        contents = [b"receipt %d" % (self.sent + number) for number in range(count)]
        self.sent += count
        try:
            self.log.append(contents)
        except (SpoolBroken, SpoolFull):
            return
        self.answered += contents

    @rule(step=st.sampled_from(["sync", "sync_folder", "write", "create"]))
    def fail(self, step: str) -> None:
        self.disk.failing = {step}
        self.append(2)
        self.disk.failing = set()

    @rule(room=st.integers(0, 60))
    def fill(self, room: int) -> None:
        self.disk.room = room
        self.append(2)
        self.disk.room = None

    @rule()
    def crash(self) -> None:
        self.disk.crash()
        self._start()

    @rule()
    def restart_the_drain(self) -> None:
        self.reader = Reader(FOLDER, self.disk)

    @rule(rows=st.integers(1, 5), lost=st.booleans(), tidied=st.booleans())
    def drain(self, rows: int, lost: bool, tidied: bool) -> None:
        page = self.reader.page(rows, 1 << 20, owned=yes)
        for each in page:  # the database recognizes receipts that it has
            if each.content not in self.database:
                self.database.append(each.content)
        if lost:  # the answer of the commit: the page is read again
            self.restart_the_drain()
            return
        for each in page:
            self.reader.pass_by(each.number)
        if tidied:
            self.reader.tidy(owned=yes)

    @precondition(lambda self: self.answered)
    @invariant()
    def nothing_arrives_that_was_not_sent(self) -> None:
        assert len(self.database) <= self.sent

    def teardown(self) -> None:
        self.crash()
        while page := self.reader.page(3, 1 << 20, owned=no):
            for each in page:
                if each.content not in self.database:
                    self.database.append(each.content)
                self.reader.pass_by(each.number)
            self.reader.tidy(owned=no)
        place = {content: number for number, content in enumerate(self.database)}
        found = [place[content] for content in self.answered]  # KeyError: a receipt is lost
        assert found == sorted(found)


TestSpooling = Spooling.TestCase
TestSpooling.settings = settings(max_examples=120, stateful_step_count=25, deadline=None)
