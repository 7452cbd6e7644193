"""`inboxd emit --file`, `inboxd send --file`: many events or commands, one JSON object a line.

Promises: a transaction writes at most 1,000 lines together with the position in the file, so an
import that was interrupted, even by SIGKILL, continues after the last committed line; a broken line
ends the import, unless broken lines are skipped. At Ctrl-C the current page gets a few seconds to
commit. Known limits: a file is recorded by the digest of its content, so a corrected file counts as
a new file, and a change while the file is read is not noticed; a pipe is recorded only under its
--name.
"""

import hashlib
import os
import signal
import stat
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, cast

import typer

from inboxd.cli.exits import BY_SIGNAL, Exit
from inboxd.cli.groups import Options
from inboxd.cli.options import Asking, named_in
from inboxd.cli.output import print_json, remark
from inboxd.errors import Conflict, UsageError
from inboxd.model.wording import plural

if TYPE_CHECKING:
    from inboxd.client.drafts import Kind
    from inboxd.features.producing.json_lines import LineReader, LinesRead
    from inboxd.features.producing.store import ImportedFile, WrittenPage
    from inboxd.registry.payload_models import Kind as PayloadKind
    from inboxd.store.session import Session

_PAGE_LINES = 1_000
_LISTED_MISTAKES = 10  # further mistakes are only counted
_CHUNK_BYTES = 1 << 20
# After Ctrl-C: time for the page to commit before a remark, and time after the remark.
_QUIET_SECONDS, _LAST_PAGE_SECONDS = 0.3, 5.0


@dataclass(frozen=True, kw_only=True)
class FileOptions(Options):
    file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|-",
            help="Write many rows: one JSON object per line; -: standard input.",
        ),
    ] = None
    name: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="The name under which the file is recorded. Default: its digest."
        ),
    ] = None
    from_line: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Begin at this line of the file.")
    ] = None
    page_lines: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=_PAGE_LINES, help="At most N lines per transaction."),
    ] = _PAGE_LINES
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave out broken lines, and continue.")
    ] = False

    def refuse_without_file(self) -> None:
        if self != FileOptions():
            raise UsageError("--name, --from-line, --page-lines and --skip-broken need --file.")


@dataclass(slots=True)
class FileTally:
    """before: lines of an earlier run. under_way: the last line of the page being written."""

    before: int
    lines: int
    written: int = 0
    duplicates: int = 0
    dead_letters: int = 0
    broken: int = 0
    mistakes: list[dict[str, Any]] = field(default_factory=list)
    finished: bool = False
    under_way: int | None = None

    @property
    def document(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key != "under_way"}

    def add(self, page: "WrittenPage", lines: int, mistakes: list[tuple[int, str]]) -> None:
        """Count a page. lines: the number of the last line that is finished with it."""
        self.lines, self.under_way = lines, None
        self.written += page.written
        self.duplicates += page.duplicates
        self.dead_letters += page.conflicts
        self.broken += len(mistakes)
        room = _LISTED_MISTAKES - len(self.mistakes)
        self.mistakes += [{"line": line, "mistake": told} for line, told in mistakes[:room]]


def write_file(given: Asking, options: FileOptions, kind: "Kind[Any]", *, force: bool) -> None:
    """Raises UsageError for an unreadable file, Conflict if another process imports it."""
    with _opened(options.file or "-") as file:
        name = options.name or _digest(file)
        start = (options.from_line or 1) - 1
        tally = FileTally(before=start, lines=start)

        async def run(session: "Session") -> None:
            from inboxd import operations
            from inboxd.features.producing.json_lines import LineJudge, LineReader
            from inboxd.features.producing.store import ImportedFile
            from inboxd.registry.payload_models import models_here

            also = partial(named_in, given.settings)
            remarks, refusal = None, None
            if not force:
                remarks = await operations.remarks(session, also)
                models = models_here(given.settings)
                refusal = partial(models.refusal, cast("PayloadKind", kind.noun))
            reader = LineReader(file, LineJudge(kind, remarks, refusal))
            source = ImportedFile(kind.noun, name)  # type: ignore[arg-type]
            with _progress(file, shown=not given.json) as advance:
                await _write_lines(session, source, reader, options, tally, advance)

        try:
            given.ask(run)
        except KeyboardInterrupt:
            _tell_where_to_go_on(kind.noun, tally, is_known=name is not None)
            # Python would wait for the reading thread, which blocks until the pipe has a line.
            if _size(file) is None:
                sys.stderr.flush()
                os._exit(BY_SIGNAL + signal.SIGINT)
            raise
    _report(kind.noun, tally, json=given.json)


async def _write_lines(
    session: "Session",
    source: "ImportedFile",
    reader: "LineReader",
    options: FileOptions,
    tally: FileTally,
    advance: Callable[[int], None],
) -> None:
    from anyio.to_thread import run_sync

    from inboxd.features.producing import store

    after = (await store.so_far(session, source)).lines
    if options.from_line is not None and options.from_line <= after:
        raise Conflict(
            f"lines up to {after} are already written, line {options.from_line} among them: leave "
            "out --from-line to continue after them, or give another --name to write the file again"
        )
    start = tally.before = tally.lines = max(after, tally.before)
    # In a thread: reading from a pipe may block.
    advance(await run_sync(_reading, partial(reader.skip, start), abandon_on_cancel=True))
    read_on = partial(reader.page, options.page_lines, skip_broken=options.skip_broken)

    async def write(read: "LinesRead") -> None:
        nonlocal after
        left_out = len(read.broken) if options.skip_broken else 0
        page = store.LinePage(after, max(read.to, after), read.lines, left_out, read.last)
        found = await store.write(session, source, page, skip=options.skip_broken)
        after = page.to if found.to is None else found.to
        mistakes = [*found.refused, *read.broken]
        tally.add(found, after, sorted(mistakes) if options.skip_broken else mistakes[:1])
        tally.finished = read.last and (options.skip_broken or not mistakes)

    while not (tally.finished or (tally.broken and not options.skip_broken)):
        read: LinesRead = await run_sync(_reading, read_on, abandon_on_cancel=True)
        tally.under_way = read.to
        await _finish(write(read))
        advance(read.size)


async def _finish(page: Coroutine[Any, Any, None]) -> None:
    """Write a page; at Ctrl-C it gets a few more seconds to commit."""
    import asyncio

    writing = asyncio.create_task(_error_of(page))
    try:
        error = await asyncio.shield(writing)
    except asyncio.CancelledError:
        ended, _ = await asyncio.wait([writing], timeout=_QUIET_SECONDS)
        if not ended:
            remark("Waiting up to 5 s for the current lines; Ctrl-C again stops at once.")
            await asyncio.wait([writing], timeout=_LAST_PAGE_SECONDS)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        raise
    if error is not None:
        raise error


async def _error_of(page: Coroutine[Any, Any, None]) -> Exception | None:
    """Return the error: asyncio prints a traceback if a task raises while the loop is closing."""
    try:
        await page
    except Exception as error:  # noqa: BLE001 - raised where the page is awaited
        return error
    return None


def _reading(read: Callable[[], Any]) -> Any:
    """Turn OSError into UsageError: the session would take OSError for a lost connection."""
    try:
        return read()
    except OSError as error:
        raise UsageError(f"the rest of the file cannot be read ({error.strerror})") from error


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield sys.stdin.buffer
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(Path(name).open("rb"))
        except OSError as error:
            raise UsageError(f"{name}: cannot read the file ({error.strerror})") from error
        yield file


def _digest(file: BinaryIO) -> str | None:
    """Return the digest of a file; None for a pipe, which can be read only once."""
    if _size(file) is None:
        return None
    digest = hashlib.sha256()
    while chunk := _reading(partial(file.read, _CHUNK_BYTES)):
        digest.update(chunk)
    file.seek(0)
    return f"sha256:{digest.hexdigest()}"


def _size(file: BinaryIO) -> int | None:
    if file is sys.stdin.buffer:
        return None
    found = os.fstat(file.fileno())
    return found.st_size if stat.S_ISREG(found.st_mode) else None


@contextmanager
def _progress(file: BinaryIO, *, shown: bool) -> Iterator[Callable[[int], None]]:
    if not (shown and sys.stderr.isatty()):
        yield lambda _size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=_size(file))
        yield lambda size: progress.advance(bar, size)


def _tell_where_to_go_on(noun: str, tally: FileTally, *, is_known: bool) -> None:
    _list_mistakes(tally)
    remark(f"Interrupted: {_summary(noun, tally)}")
    if is_known:
        remark("Run the same command again to continue after that line.")
        return
    if (tally.under_way or 0) > tally.lines:
        remark(
            f"Lines {tally.lines + 1} to {tally.under_way} are possibly written too: the server "
            "has not answered. Look for them before you continue."
        )
    remark(
        f"Without --name the position is not recorded: continue with --from-line {tally.lines + 1}"
    )


def _report(noun: str, tally: FileTally, *, json: bool) -> None:
    if json:
        print_json(tally.document)
    else:
        _list_mistakes(tally)
        typer.echo(_summary(noun, tally))
        if not tally.finished:
            line = tally.mistakes[0]["line"]
            remark(
                f"Line {line} and the lines after it were not written: correct line {line} and add "
                f"--from-line {line}, or leave it out with --skip-broken"
            )
    if tally.broken or tally.dead_letters:
        raise typer.Exit(Exit.DATA)


def _list_mistakes(tally: FileTally) -> None:
    for each in tally.mistakes:
        remark(f"line {each['line']}: {each['mistake']}")
    if tally.broken > len(tally.mistakes):
        remark(f"and {tally.broken - len(tally.mistakes):,} more broken lines")


def _summary(noun: str, tally: FileTally) -> str:
    counts = {
        "duplicate": tally.duplicates,
        "dead letter": tally.dead_letters,
        "broken line": tally.broken,
    }
    beside = ", ".join(plural(count, what) for what, count in counts.items() if count)
    text = f"{plural(tally.written, noun)} written, up to line {tally.lines:,}"
    if tally.before:
        text += f"; lines 1 to {tally.before:,} were already written"
    return f"{text} ({beside})" if beside else text
