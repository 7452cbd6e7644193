"""A folder of the spool: order of steps, full and failing disks, torn tails, flipped bits."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.errors import SpoolBroken, SpoolFull
from inboxd.inbound.spool.frames import HEADER, Frame, encode, scan
from inboxd.inbound.spool.log import APART, Appender, Reader, read_cursor, segments
from tests.support.volatile import VolatileFiles

FOLDER = Path("/spool")


def yes() -> bool:
    return True


def no() -> bool:
    return False


@pytest.fixture
def disk() -> VolatileFiles:
    return VolatileFiles(random.Random(7))


def appender(disk: VolatileFiles, *, quota: int = 1 << 20, segment_bytes: int = 400) -> Appender:
    return Appender(FOLDER, disk, quota=quota, segment_bytes=segment_bytes)


def contents(reader: Reader, *, owned: Callable[[], bool] = no) -> list[bytes]:
    found = []
    while page := reader.page(3, 1 << 20, owned=owned):
        found += [each.content for each in page]
    return found


def written(count: int, start: int = 0) -> list[bytes]:
    return [b"receipt %d" % number for number in range(start, start + count)]


def test_frames_are_read_in_order_over_several_segments(disk: VolatileFiles) -> None:
    log = appender(disk)
    for number in range(40):
        log.append(written(1, number))
    assert len(segments(FOLDER, disk)) > 3
    assert contents(Reader(FOLDER, disk)) == written(40)


def test_frames_and_file_names_are_on_the_disk_when_append_returns(disk: VolatileFiles) -> None:
    appender(disk).append(written(3))
    assert disk.steps == ["create", "sync_folder", "write", "sync"]
    disk.crash()
    assert contents(Reader(FOLDER, disk)) == written(3)


def test_a_reader_continues_while_the_owner_appends(disk: VolatileFiles) -> None:
    log, reader = appender(disk), Reader(FOLDER, disk)
    seen = []
    for number in range(0, 40, 2):
        log.append(written(2, number))
        seen += [each.content for each in reader.page(100, 1 << 20, owned=yes)]
    assert seen == written(40)


def test_a_page_is_bounded_in_bytes(disk: VolatileFiles) -> None:
    appender(disk).append([b"x" * 100] * 10)
    assert len(Reader(FOLDER, disk).page(100, 250, owned=yes)) == 3


def test_drained_segments_are_removed_after_the_cursor_is_written(
    disk: VolatileFiles,
) -> None:
    log, reader = appender(disk), Reader(FOLDER, disk)
    for number in range(40):
        log.append(written(1, number))
    before = len(segments(FOLDER, disk))
    for each in reader.page(25, 1 << 20, owned=yes):
        reader.pass_by(each.number)
    disk.steps.clear()

    reader.tidy(owned=yes)

    assert disk.steps[0] == "replace"
    assert set(disk.steps[1:]) == {"remove"}
    assert 1 < len(segments(FOLDER, disk)) < before
    disk.crash()
    assert contents(Reader(FOLDER, disk)) == written(15, 25)


def test_the_last_segment_is_removed_only_without_an_owner(disk: VolatileFiles) -> None:
    log, reader = appender(disk), Reader(FOLDER, disk)
    log.append(written(2))
    reader.pass_by(reader.page(9, 999, owned=yes)[-1].number)
    reader.tidy(owned=yes)
    assert len(segments(FOLDER, disk)) == 1
    assert not contents(reader)
    reader.tidy(owned=no)
    assert not segments(FOLDER, disk)
    assert appender(disk).next_number > read_cursor(FOLDER, disk) == 2


def test_an_unwritten_cursor_repeats_frames(disk: VolatileFiles) -> None:
    appender(disk).append(written(3))
    reader = Reader(FOLDER, disk)
    reader.pass_by(reader.page(2, 999, owned=yes)[-1].number)
    assert contents(Reader(FOLDER, disk)) == written(3)


@pytest.mark.parametrize("text", [b"", b"7", b"7 00000000\n", b"\xff\xff \x00", b"x y"])
def test_an_unreadable_cursor_repeats_all_frames(disk: VolatileFiles, text: bytes) -> None:
    appender(disk).append(written(3))
    disk.replace(FOLDER / "cursor", text)
    assert contents(Reader(FOLDER, disk)) == written(3)


def test_a_failed_sync_ends_appends_and_syncs(
    disk: VolatileFiles,
) -> None:
    log = appender(disk)
    log.append(written(2))
    disk.failing = {"sync"}
    with pytest.raises(SpoolBroken, match="cannot be synced"):
        log.append(written(1, 2))
    disk.failing = set()
    disk.steps.clear()

    with pytest.raises(SpoolBroken, match="cannot be synced"):
        log.append(written(1, 3))

    assert disk.steps == []
    assert contents(Reader(FOLDER, disk))[:2] == written(2)


@pytest.mark.parametrize("step", ["create", "sync_folder", "write", "cut"])
def test_any_disk_error_ends_appends(disk: VolatileFiles, step: str) -> None:
    log = appender(disk)
    disk.failing = {step, "write"} if step == "cut" else {step}
    with pytest.raises(SpoolBroken, match="Input/output error"):
        log.append(written(1))
    disk.failing = set()
    with pytest.raises(SpoolBroken):
        log.append(written(1))


def test_a_full_disk_leaves_no_partial_frame_and_is_used_again(
    disk: VolatileFiles,
) -> None:
    log = appender(disk)
    log.append(written(2))
    disk.room = 30
    with pytest.raises(SpoolFull, match="disk of the spool is full"):
        log.append(written(3, 2))
    disk.room = None
    log.append(written(2, 2))
    reader = Reader(FOLDER, disk)
    assert contents(reader) == written(4)
    assert (reader.torn, reader.apart) == ([], 0)


def test_the_quota_holds_and_draining_makes_room(disk: VolatileFiles) -> None:
    log, reader = appender(disk, quota=500, segment_bytes=100), Reader(FOLDER, disk)
    accepted = 10
    for number in range(accepted):
        log.append(written(1, number))
    with pytest.raises(SpoolFull, match=r"of at most 500; .*raise inbound\.spool\.quota"):
        log.append(written(9, accepted))
    for each in reader.page(99, 9999, owned=yes):
        reader.pass_by(each.number)
    reader.tidy(owned=yes)
    log.append(written(1, accepted))
    assert contents(reader, owned=yes) == written(1, accepted)


def test_a_tail_torn_at_any_byte_costs_only_its_frame(disk: VolatileFiles) -> None:
    appender(disk, segment_bytes=10_000).append(written(3))
    [path] = segments(FOLDER, disk)
    whole = disk.size(path)
    last = HEADER + len(written(1, 2)[0])
    for size in range(whole - 1, whole - last - 1, -1):
        disk.truncate(path, size)
        reader = Reader(FOLDER, disk)
        assert contents(reader) == written(2)
        assert reader.apart == 0
        assert [each.bytes for each in reader.torn] == [size - whole + last][: size > whole - last]
    successor = appender(disk)
    successor.append(written(1, 9))
    assert contents(Reader(FOLDER, disk)) == [*written(2), *written(1, 9)]


@given(place=st.integers(0, 5 * (HEADER + 9) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_is_set_apart_and_the_rest_is_drained(place: int, bit: int) -> None:
    disk = VolatileFiles(random.Random(7))
    appender(disk, segment_bytes=10_000).append(written(5))
    [path] = segments(FOLDER, disk)
    disk.spoil(path, place, bit)
    victim = place // (HEADER + 9)
    reader = Reader(FOLDER, disk)

    assert contents(reader) == [each for n, each in enumerate(written(5)) if n != victim]

    assert reader.apart == 1
    [name] = [each for each in disk.names(FOLDER / APART) if each.endswith(".bytes")]
    assert disk.size(FOLDER / APART / name) == HEADER + 9


@given(st.binary(max_size=400), st.lists(st.binary(max_size=30), max_size=3))
def test_a_segment_of_any_bytes_is_read_to_its_end(noise: bytes, good: Sequence[bytes]) -> None:
    frames = b"".join(encode(number, content) for number, content in enumerate(good, 1))
    disk = VolatileFiles(random.Random(7))
    path = FOLDER / f"{1:020d}.segment"
    disk.replace(path, noise + frames)
    with disk.read(path) as file:
        found = list(scan(file, disk.size(path)))
    assert sum(each.end - each.start for each in found) == len(noise) + len(frames)
    read = [each.content for each in found if isinstance(each, Frame)]
    assert read[-len(good) :] == list(good) if good else True
