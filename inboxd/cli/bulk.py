"""`inboxd emit --file`, `inboxd send --file`: many events or commands, one JSON object a line.

Owns the way of a file: the name that it is known by, where it goes on, the progress bar, and the
report at the end. Promises: a transaction writes at most 1,000 lines, and how far the file has come
(`inboxd.store.imports`), so a file that was interrupted, even by SIGKILL, goes on where it was; a
broken line ends it, and what was written before is reported, unless broken lines are skipped. At
Ctrl-C the page under way comes to its end, for a few seconds at most, so that what is committed is
known, and it is said where to go on.
Known limits: a file is known by the digest of what it holds, so one that was mended is another one,
and one that is changed while it is read is not noticed; a pipe is known by --name alone.
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
    from inboxd.cli.json_lines import LineReader, LinesRead
    from inboxd.client.drafts import Kind
    from inboxd.registry.payload_models import Kind as PayloadKind
    from inboxd.store.imports import ImportedFile, WrittenPage
    from inboxd.store.session import Session

_PAGE_LINES = 1_000
# Broken lines that are listed; the others are counted.
_LISTED = 10
_CHUNK = 1 << 20
# Seconds that a page has to come to its end after Ctrl-C: before it is said, and then.
_QUIETLY, _LAST_PAGE = 0.3, 5.0


@dataclass(frozen=True, kw_only=True)
class FileOptions(Options):
    """Where lines come from, and what becomes of broken ones."""

    file: Annotated[
        str | None,
        typer.Option(metavar="FILE|-", help="Many: a JSON object a line; -: standard input."),
    ] = None
    name: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What the file is known by; else the digest of it."),
    ] = None
    from_line: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Begin at this line of the file.")
    ] = None
    page_lines: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=_PAGE_LINES, help="Most lines of a transaction."),
    ] = _PAGE_LINES
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave broken lines out of the file, and go on.")
    ] = False

    def refuse_without_file(self) -> None:
        """Raise UsageError for what means nothing where there is no file."""
        if self != FileOptions():
            raise UsageError("--name, --from-line, --page-lines and --skip-broken need --file.")


@dataclass(slots=True)
class FileTally:
    """What became of a file. before: lines that were done with; lines: those that are now.

    under_way: the last line of the page that is being written; None: none is.
    """

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
        """As JSON has it, at the end."""
        return {key: value for key, value in asdict(self).items() if key != "under_way"}

    def add(self, page: "WrittenPage", lines: int, mistakes: list[tuple[int, str]]) -> None:
        """Count a page, after which so many lines are done with."""
        self.lines, self.under_way = lines, None
        self.written += page.written
        self.duplicates += page.duplicates
        self.dead_letters += page.conflicts
        self.broken += len(mistakes)
        room = _LISTED - len(self.mistakes)
        self.mistakes += [{"line": line, "mistake": told} for line, told in mistakes[:room]]


def write_file(given: Asking, options: FileOptions, kind: "Kind[Any]", *, force: bool) -> None:
    """Write the lines of a file, from where an earlier run of it ended, and report.

    Raises UsageError for a file that cannot be read, Conflict when somebody else is at it.
    """
    with _opened(options.file or "-") as file:
        name = options.name or _digest(file)
        start = (options.from_line or 1) - 1
        tally = FileTally(before=start, lines=start)

        async def run(session: "Session") -> None:
            from inboxd import operations
            from inboxd.cli.json_lines import LineJudge, LineReader
            from inboxd.registry.payload_models import models_here
            from inboxd.store.imports import ImportedFile

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
            # Python would wait for the thread that reads, and so for the next line of a pipe.
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

    from inboxd.store import imports

    after = (await imports.so_far(session, source)).lines
    if options.from_line is not None and options.from_line <= after:
        raise Conflict(
            f"line {options.from_line} is done with, and those up to {after}: go on behind them "
            "without --from-line, or write the file once more under another --name"
        )
    start = tally.before = tally.lines = max(after, tally.before)
    # In a thread: what comes through a pipe may take its time.
    advance(await run_sync(_reading, partial(reader.skip, start), abandon_on_cancel=True))
    read_on = partial(reader.page, options.page_lines, skip_broken=options.skip_broken)

    async def write(read: "LinesRead") -> None:
        nonlocal after
        left_out = len(read.broken) if options.skip_broken else 0
        page = imports.LinePage(after, max(read.to, after), read.lines, left_out, read.last)
        found = await imports.write(session, source, page, skip=options.skip_broken)
        after = page.to if found.to is None else found.to
        mistakes = [*found.refused, *read.broken]
        tally.add(found, after, sorted(mistakes) if options.skip_broken else mistakes[:1])
        tally.finished = read.last and (options.skip_broken or not mistakes)

    while not (tally.finished or (tally.broken and not options.skip_broken)):
        read: LinesRead = await run_sync(_reading, read_on, abandon_on_cancel=True)
        tally.under_way = read.to
        await _to_its_end(write(read))
        advance(read.size)


async def _to_its_end(page: Coroutine[Any, Any, None]) -> None:
    """Write a page; one that is under way when Ctrl-C comes has a few seconds to end."""
    import asyncio

    writing = asyncio.create_task(_error_of(page))
    try:
        error = await asyncio.shield(writing)
    except asyncio.CancelledError:
        ended, _ = await asyncio.wait([writing], timeout=_QUIETLY)
        if not ended:
            remark("The lines under way have 5 s to be written; Ctrl-C once more ends it at once.")
            await asyncio.wait([writing], timeout=_LAST_PAGE)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        raise
    if error is not None:
        raise error


async def _error_of(page: Coroutine[Any, Any, None]) -> Exception | None:
    """Returned, not raised: what a task raises while the loop is ended is shown with its trace."""
    try:
        await page
    except Exception as error:  # noqa: BLE001 - raised where the page is awaited
        return error
    return None


def _reading(read: Callable[[], Any]) -> Any:
    """Raises UsageError: on a session an OSError would be a lost connection."""
    try:
        return read()
    except OSError as error:
        raise UsageError(f"the file cannot be read on ({error.strerror})") from error


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
    """The digest of a file; None of what can be read only once."""
    if _size(file) is None:
        return None
    digest = hashlib.sha256()
    while chunk := _reading(partial(file.read, _CHUNK)):
        digest.update(chunk)
    file.seek(0)
    return f"sha256:{digest.hexdigest()}"


def _size(file: BinaryIO) -> int | None:
    """The bytes of a file; None of what is none, such as a pipe or standard input."""
    if file is sys.stdin.buffer:
        return None
    found = os.fstat(file.fileno())
    return found.st_size if stat.S_ISREG(found.st_mode) else None


@contextmanager
def _progress(file: BinaryIO, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """A bar of the file's bytes, for a person at a terminal; yields what moves it on."""
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
    """After Ctrl-C; a file that is known goes on by itself."""
    _list_mistakes(tally)
    remark(f"Interrupted: {_summary(noun, tally)}")
    if is_known:
        remark("The same command goes on behind that line.")
        return
    if (tally.under_way or 0) > tally.lines:
        remark(
            f"Lines {tally.lines + 1} to {tally.under_way} may be written too: the server has not "
            "answered. Look for them before you go on."
        )
    remark(f"What has no --name is not remembered: go on with --from-line {tally.lines + 1}")


def _report(noun: str, tally: FileTally, *, json: bool) -> None:
    if json:
        print_json(tally.document)
    else:
        _list_mistakes(tally)
        typer.echo(_summary(noun, tally))
        if not tally.finished:
            line = tally.mistakes[0]["line"]
            remark(
                f"Nothing from line {line} on was written: mend it and add --from-line {line}, "
                "or leave it out with --skip-broken"
            )
    if tally.broken or tally.dead_letters:
        raise typer.Exit(Exit.DATA)


def _list_mistakes(tally: FileTally) -> None:
    for each in tally.mistakes:
        remark(f"line {each['line']}: {each['mistake']}")
    if tally.broken > len(tally.mistakes):
        remark(f"and {tally.broken - len(tally.mistakes):,} broken lines more")


def _summary(noun: str, tally: FileTally) -> str:
    counts = {
        "duplicate": tally.duplicates,
        "dead letter": tally.dead_letters,
        "broken line": tally.broken,
    }
    beside = ", ".join(plural(count, what) for what, count in counts.items() if count)
    text = f"{plural(tally.written, noun)} written, up to line {tally.lines:,}"
    if tally.before:
        text += f"; lines 1 to {tally.before:,} were done with before"
    return f"{text} ({beside})" if beside else text
