"""The log's way out: lines wait in memory, and a thread of their own writes them.

Owns the descriptor's bytes from a formatted line on. Promises: code that logs never waits for the
log's reader, whichever thread it runs in; lines keep their order; what finds no room is left out,
counted, and reported as soon as lines are read again.
Known limit: lines that wait are lost when the process is killed.
"""

import logging
import os
import select
import threading
import traceback
from collections import deque
from collections.abc import Callable

# What may wait: some seconds of the busiest log, and nothing beside a worker's memory.
_ROOM = 4 * 2**20
# How long the end of a process waits for the log's reader, in seconds.
PATIENCE = 2.0


class LogWriter(logging.Handler):
    """Writes formatted records to a descriptor, and never makes the caller wait for it."""

    def __init__(
        self, descriptor: int, encoding: str, *, on_drop: Callable[[], None], room: int = _ROOM
    ) -> None:
        """Start the thread. on_drop: called for each line that is left out; room: in bytes."""
        super().__init__()
        self._descriptor = descriptor
        self._encoding = encoding
        self._on_drop = on_drop
        self._room = room
        # The handler's own lock, which `logging` renews in a process that was forked.
        self._news = threading.Condition(self.lock)
        self._closing = False
        self._gave_up = False
        self._begin()

    def handle(self, record: logging.LogRecord) -> bool:
        """Format and keep a record, without the lock: formatting may stand still, others go on."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record's line for the thread."""
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - a log line is nobody's failure
            # `handleError` of `logging` writes to standard error, and so may wait for ever.
            line = traceback.format_exc().rstrip()
        self.put(line)

    def put(self, text: str) -> None:
        """Keep a text for the thread, as a line after all others."""
        line = f"{text}\n".encode(self._encoding, "backslashreplace")
        with self._news:
            if self._process != os.getpid():
                self._begin()
            if fits := self._size + len(line) <= self._room:
                self._lines.append(line)
                self._size += len(line)
                self._news.notify_all()
            else:
                self._dropped += 1
        if not fits:
            self._on_drop()

    def flush(self) -> None:
        """Wait until all lines are written, for a while."""
        self.wait()

    def wait(self, within: float = PATIENCE) -> bool:
        """Wait until all lines are written, for so many seconds; whether they are."""
        with self._news:
            if self._process != os.getpid():
                return True
            self._gave_up = not self._news.wait_for(lambda: not self._size, within)
            return not self._gave_up

    def close(self) -> None:
        """Write what waits, as far as it is read in time, and end the thread."""
        if not self._gave_up:  # the end of a process flushes first, and waits once
            self.flush()
        with self._news:
            self._closing = True
            self._news.notify_all()
        super().close()

    def _begin(self) -> None:
        """Begin with nothing: a process that was forked leaves the lines to who has them."""
        self._process = os.getpid()
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._dropped = 0
        # A daemon: it may be waiting for the reader when the process is to end.
        threading.Thread(target=self._write_all, name="inboxd-log", daemon=True).start()

    def _write_all(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._lines or self._closing)
                if not self._lines:
                    return
                page = self._next()
            self._write(page)
            with self._news:
                self._size -= len(page)
                dropped = 0
                if self._size <= self._room // 2:  # the report does not crowd out lines
                    dropped, self._dropped = self._dropped, 0
                self._news.notify_all()
            if dropped:
                self._report(dropped)

    def _next(self) -> bytes:
        """As many lines as are written in one piece, though other processes have the same pipe."""
        page = self._lines.popleft()
        while self._lines and len(page) + len(self._lines[0]) <= select.PIPE_BUF:
            page += self._lines.popleft()
        return page

    def _write(self, page: bytes) -> None:
        # Not by Python's file object: its lock would be held for as long as nobody reads.
        rest = memoryview(page)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # another process has made the shared file so
                poll = select.poll()
                poll.register(self._descriptor, select.POLLOUT)
                poll.poll()
            except OSError:  # the reader has gone, or the disk is full: later lines may do
                for _ in range(bytes(rest).count(b"\n")):
                    self._on_drop()
                return

    def _report(self, lines: int) -> None:
        told = f"{lines} log lines were left out: nobody read the log"
        self.emit(logging.LogRecord(__name__, logging.WARNING, __file__, 0, told, (), None))
