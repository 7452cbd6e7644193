"""Writing of the log: lines wait in memory, and a separate thread writes them.

Promises: code that logs never waits, in any thread; lines keep their order; lines without space are
dropped, counted and reported. Known limit: lines that wait are lost when the process is killed.
"""

import logging
import os
import select
import threading
import traceback
from collections import deque
from collections.abc import Callable

# Bytes that may wait: some seconds of the busiest log, and little of a worker's memory.
_ROOM_BYTES = 4 * 2**20
# Seconds that the end of a process waits for the log's reader.
PATIENCE = 2.0


class LogWriter(logging.Handler):
    def __init__(
        self,
        descriptor: int,
        encoding: str,
        *,
        on_drop: Callable[[], None],
        room: int = _ROOM_BYTES,
    ) -> None:
        """Start the thread. on_drop: called for each line that is dropped; room: in bytes."""
        super().__init__()
        self._descriptor = descriptor
        self._encoding = encoding
        self._on_drop = on_drop
        self._room = room
        # Uses the handler's own lock, which `logging` renews in a forked process.
        self._changed = threading.Condition(self.lock)
        self._closing = False
        self._gave_up = False
        self._begin()

    def handle(self, record: logging.LogRecord) -> bool:
        """Format a record and keep it, without the lock: slow formatting must not block others."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - a log line must not fail its caller
            # `handleError` of `logging` writes to standard error, and so might wait for ever.
            line = traceback.format_exc().rstrip()
        self.put(line)

    def put(self, text: str) -> None:
        line = f"{text}\n".encode(self._encoding, "backslashreplace")
        with self._changed:
            if self._process != os.getpid():
                self._begin()
            if fits := self._size + len(line) <= self._room:
                self._lines.append(line)
                self._size += len(line)
                self._changed.notify_all()
            else:
                self._dropped += 1
        if not fits:
            self._on_drop()

    def flush(self) -> None:
        self.wait()

    def wait(self, within: float = PATIENCE) -> bool:
        """Wait until all lines are written, at most `within` seconds; returns whether they are."""
        with self._changed:
            if self._process != os.getpid():
                return True
            self._gave_up = not self._changed.wait_for(lambda: not self._size, within)
            return not self._gave_up

    def close(self) -> None:
        """Write waiting lines, as far as they are read in time, and end the thread."""
        if not self._gave_up:  # the end of a process flushes first, so the wait happens once
            self.flush()
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        super().close()

    def _begin(self) -> None:
        """Start empty: a forked process leaves waiting lines to its parent."""
        self._process = os.getpid()
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._dropped = 0
        # A daemon thread: it may be waiting for the reader when the process ends.
        threading.Thread(target=self._write_all, name="inboxd-log", daemon=True).start()

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._closing)
                if not self._lines:
                    return
                page = self._next()
            self._write(page)
            with self._changed:
                self._size -= len(page)
                dropped = 0
                if self._size <= self._room // 2:  # the report must not crowd out lines
                    dropped, self._dropped = self._dropped, 0
                self._changed.notify_all()
            if dropped:
                self._report(dropped)

    def _next(self) -> bytes:
        """The next lines that one atomic write can hold, since processes may share the pipe."""
        page = self._lines.popleft()
        while self._lines and len(page) + len(self._lines[0]) <= select.PIPE_BUF:
            page += self._lines.popleft()
        return page

    def _write(self, page: bytes) -> None:
        # Not by Python's file object: its lock would be held until the log is read.
        rest = memoryview(page)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # another process made the shared file non-blocking
                poll = select.poll()
                poll.register(self._descriptor, select.POLLOUT)
                poll.poll()
            except OSError:  # the reader is gone, or the disk is full: later lines may be written
                for _ in range(bytes(rest).count(b"\n")):
                    self._on_drop()
                return

    def _report(self, lines: int) -> None:
        told = f"{lines} log lines were dropped: the log was not read"
        self.emit(logging.LogRecord(__name__, logging.WARNING, __file__, 0, told, (), None))
