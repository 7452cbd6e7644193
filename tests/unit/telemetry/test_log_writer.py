"""The log writer: callers never wait, lines keep their order, dropped lines are counted."""

import fcntl
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from inboxd.telemetry.log_writer import LogWriter

WITHIN = 30.0


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe of one page: its reading end and its writing end."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    yield reading, writing
    for end in (reading, writing):
        with suppress(OSError):  # the test has closed this end
            os.close(end)


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("x", logging.INFO, __file__, 1, text, (), None)


def read(end: int, until: str) -> list[str]:
    """The lines up to the first one that begins with `until`."""
    lines: list[str] = []
    with os.fdopen(os.dup(end), "rb", buffering=0) as file:  # unbuffered: later lines stay
        while not lines or not lines[-1].startswith(until):
            lines.append(file.readline().decode().rstrip("\n"))
    return lines


def test_logging_does_not_wait_and_dropped_lines_are_reported(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    dropped: list[None] = []
    writer = LogWriter(writing, "utf-8", on_drop=lambda: dropped.append(None), room=20_000)
    told = [f"{n:>99}" for n in range(1000)]
    for each in told:  # in this thread: waiting would block the test for ever
        writer.handle(record(each))
    assert not writer.wait(within=0.01), "the pipe is full and unread"
    lines = read(reading, until=f"{len(dropped)} log lines were dropped")
    *kept, _ = lines
    assert kept == sorted(set(kept)), "each line once, in order"
    assert kept[:200] == told[:200]
    assert len(kept) + len(dropped) == 1000
    assert 700 < len(dropped) <= 1000 - 200
    assert writer.wait(within=WITHIN)
    writer.close()


def test_slow_formatting_does_not_block_other_lines(
    pipe: tuple[int, int],
) -> None:
    reading, writing = pipe
    writer = LogWriter(writing, "utf-8", on_drop=lambda: None)
    begun, go = threading.Event(), threading.Event()

    class Slow:
        def __str__(self) -> str:
            begun.set()
            go.wait()
            return "at last"

    slow = logging.LogRecord("x", logging.INFO, __file__, 1, "%s", (Slow(),), None)
    thread = threading.Thread(target=writer.handle, args=(slow,))
    thread.start()
    assert begun.wait(WITHIN)
    writer.handle(record("meanwhile"))
    assert read(reading, until="meanwhile") == ["meanwhile"]
    go.set()
    thread.join(WITHIN)
    assert read(reading, until="at last") == ["at last"]
    writer.close()


def test_unformattable_record_becomes_its_own_line(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    writer = LogWriter(writing, "ascii", on_drop=lambda: None)
    writer.handle(logging.LogRecord("x", logging.INFO, __file__, 1, "%d", ("é",), None))
    writer.handle(record("né"))
    lines = read(reading, until="n")
    assert lines[0].startswith("Traceback")
    assert lines[-1] == "n\\xe9"
    writer.close()


def test_closed_reader_fails_no_caller(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.close(reading)
    dropped: list[None] = []
    writer = LogWriter(writing, "utf-8", on_drop=lambda: dropped.append(None))
    writer.handle(record("one\ntwo"))
    assert writer.wait(within=WITHIN)
    assert len(dropped) == 2
    writer.close()


def test_nonblocking_file_is_waited_for(pipe: tuple[int, int]) -> None:
    """Another process that shares the file may have made it non-blocking."""
    reading, writing = pipe
    os.set_blocking(writing, False)
    writer = LogWriter(writing, "utf-8", on_drop=lambda: None)
    told = [f"{n:>99}" for n in range(200)]
    for each in told:
        writer.put(each)
    writer.put("end")
    assert read(reading, until="end") == [*told, "end"]
    writer.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_was_forked_writes_its_own_lines(pipe: tuple[int, int]) -> None:
    """The parent writes the lines that were waiting at the fork."""
    reading, writing = pipe
    writer = LogWriter(writing, "utf-8", on_drop=lambda: None)
    told = [f"{n:>99}" for n in range(100)]
    for each in told:
        writer.put(each)
    if (pid := os.fork()) == 0:
        own = writer.wait(within=0.01)
        writer.put("child")
        os._exit(0 if own and writer.wait(within=WITHIN) else 1)
    lines = read(reading, until="child")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    writer.put("end")
    lines += read(reading, until="end")
    assert sorted(lines) == sorted([*told, "child", "end"])
    writer.close()
