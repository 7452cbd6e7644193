"""Sentences that a reader has to read twice: how many of them each file has.

    python tests/support/english.py            counts them, file by file
    python tests/support/english.py --list inboxd/engine   shows each of a file or a folder
    python tests/support/english.py --write    writes the counts to tests/repository/english.tsv

`tests/repository/test_english.py` holds the counts: they may only fall.

A sentence counts if it begins a docstring or a comment with a word of BEGINNINGS ("What ...",
"Who ..."), or if it has one of WORDS: the reader has to find out which noun or which number is
meant. On a page, in a template and in a comment of SQL each sentence is looked at, not the first
alone, and PAGE_WORDS count too. A docstring counts if it has less than five words and is not part
of the public face; a test's name if it begins with a pronoun, and so does not say what the test is
of. Users' texts are the other strings of the product, its pages and its sample settings.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
COUNTS = ROOT / "tests/repository/english.tsv"
BEGINNINGS = re.compile(r"(?:What|Who|Whom|Those|As)\b(?! well as\b)")
WORDS = re.compile(
    r"\b(?:so many|so often|so long|is none|(?<!there )(?<!There )is no|nobody|whoever|in vain)\b",
    re.IGNORECASE,
)
PAGE_WORDS = re.compile(
    r"\b(?:there (?:is|are|was|were) (?:no|none)|so that no(?:ne)?|takes? over|what you get)\b",
    re.IGNORECASE,
)
NAMES = re.compile(
    r"test_(?:it|its|they|that|this|who|whom|whose|what|nor|none|nobody|those|as)(?:_|$)"
)
# Marks of pages and templates, and no words.
_FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_BEGIN = re.compile(r"\s*(?:#+\s|>|[-*+]\s|\d+\.\s|\||<|$)")
_LABEL = re.compile(r"\s*[a-z_]+( [a-z]+)?: |$")
_SENTENCE = re.compile(r"(?<=[.!?:;])[\"')*]*\s+|\s\|\s")
# Texts of a template: what it shows, what it gives to the translation, its comments.
_SHOWN = re.compile(r"say\(\s*\"([^\"]*)\"|\{#(.*?)#\}|>([^<>{}]+)<", re.DOTALL)
_FEWEST_WORDS = 5
_PUBLIC = tuple(
    f"inboxd/{name}" for name in ("__init__.py", "api/", "client/", "settings/", "testing/")
)
# Their text is fixed: a migration that has run is compared with its file.
_FIXED = re.compile(r"migrations/\d+_.*\.sql")
_EVERYTHING = (
    *("inboxd", "tests", "examples", "benchmarks", ".ci", "migrations", "deploy"),
    *("*.toml", "*.md", ":!CHANGELOG.md"),
)
_USERS = ("inboxd/", "deploy/", "config.example.toml", "migrations/", "examples/")


class Offence(NamedTuple):
    """One sentence. kind: `text` (users see it), `comment` (or docstring), `short` or `name`."""

    file: str
    line: int
    kind: str
    sentence: str


def offences(files: Sequence[str]) -> Iterator[Offence]:
    """Look at files of the repository, given by their paths in it."""
    for file in files:
        text = (ROOT / file).read_text("utf-8")
        if file.endswith(".py"):
            yield from _of_python(file, text)
        elif file.endswith(".sql"):
            yield from _of_sql(file, text)
        elif file.endswith((".md", ".md.in")):
            yield from _of_page(file, text)
        elif file.endswith(".html"):
            for shown in _SHOWN.finditer(text):
                yield from _of_text(
                    file,
                    text.count("\n", 0, shown.start()) + 1,
                    "".join(each or "" for each in shown.groups()),
                )
        elif file.startswith(_USERS) and file.endswith((".toml", ".yaml", ".service", ".in")):
            yield from _of_lines(file, text)


def tracked(*below: str) -> list[str]:
    """The repository's files in these folders, or all that are looked at."""
    command = [
        "git",
        "-C",
        str(ROOT),
        "ls-files",
        "--",
        *(below or _EVERYTHING),
    ]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return [file for file in found if not _FIXED.fullmatch(file) and (ROOT / file).exists()]


def counts(found: Sequence[Offence]) -> dict[tuple[str, str], int]:
    """How many there are of each kind in each file."""
    return dict(sorted(Counter((each.file, each.kind) for each in found).items()))


def written() -> dict[tuple[str, str], int]:
    """The counts that the repository holds."""
    lines = [line.split("\t") for line in COUNTS.read_text("utf-8").splitlines()]
    return {(file, kind): int(count) for file, kind, count in lines}


def _of_python(file: str, text: str) -> Iterator[Offence]:  # noqa: C901 - one look at all
    tree = ast.parse(text)
    docstrings = dict(_docstrings(tree))
    for node, is_head in docstrings.items():
        said = " ".join(str(node.value).split())
        if _is_odd(said):
            yield Offence(file, node.lineno, "comment", said)
        is_public = is_head or file.startswith(_PUBLIC)
        if not is_public and len(said.split()) < _FEWEST_WORDS:
            yield Offence(file, node.lineno, "short", said)
    for each in ast.walk(tree):
        match each:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if NAMES.match(name):
                    yield Offence(file, each.lineno, "name", name)
            case ast.Constant(value=str(said)) if each not in docstrings:
                if file.startswith(_USERS) and " " in said and _is_odd(said):
                    yield Offence(file, each.lineno, "text", " ".join(said.split()))
    for said, line in _comments(text):
        if _is_odd(said):
            yield Offence(file, line, "comment", said)


def _docstrings(tree: ast.Module) -> Iterator[tuple[ast.Constant, bool]]:
    """Each with whether it is the module's."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        match node.body[:1]:
            case [ast.Expr(value=ast.Constant(value=str()) as found)]:
                yield found, isinstance(node, ast.Module)


def _comments(text: str) -> Iterator[tuple[str, int]]:
    """Comments; one of several lines is one text."""
    block: list[str] = []
    begins = last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        said, line = token.string.lstrip("#").strip(), token.start[0]
        is_alone = token.line.lstrip().startswith("#")
        if block and is_alone and line == last + 1:
            block.append(said)
        else:
            if block:
                yield " ".join(block), begins
            block, begins = [said], line
        last = line
    if block:
        yield " ".join(block), begins


def _of_lines(file: str, text: str) -> Iterator[Offence]:
    """Lines of settings, the comments among them."""
    for number, line in enumerate(text.splitlines(), 1):
        said = line.strip().removeprefix("#").strip()
        if WORDS.search(said) or PAGE_WORDS.search(said):
            yield Offence(file, number, "text", said)


def _of_page(file: str, text: str) -> Iterator[Offence]:
    """Paragraphs, items and headings of a page in Markdown, without its blocks of code."""
    prose = _FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)
    prose = _LINK.sub(r"\1", _CODE.sub(lambda found: "`" + "\n" * found[0].count("\n"), prose))
    yield from _of_blocks(file, prose.splitlines(), _BEGIN)


def _of_sql(file: str, text: str) -> Iterator[Offence]:
    """Comments of SQL; each block of lines is one text."""
    yield from _of_blocks(file, [line.partition("--")[2] for line in text.splitlines()], _LABEL)


def _of_blocks(file: str, lines: Sequence[str], begins: re.Pattern[str]) -> Iterator[Offence]:
    """Texts of several lines; a line that `begins` matches is the first of the next text."""
    block: list[str] = []
    first = 1
    for number, line in enumerate([*lines, ""], 1):
        if begins.match(line) or not line.strip():
            yield from _of_text(file, first, "\n".join(block))
            block, first = [], number
        block.append(line)


def _of_text(file: str, line: int, text: str) -> Iterator[Offence]:
    at = 0
    for sentence in _SENTENCE.split(text):
        at = text.index(sentence, at)
        said = " ".join(sentence.split()).lstrip("#>|*_-+0123456789. ")
        if _is_odd(said) or PAGE_WORDS.search(said):
            yield Offence(file, line + text.count("\n", 0, at), "text", said)


def _is_odd(said: str) -> bool:
    return bool(BEGINNINGS.match(said) or WORDS.search(said))


def main() -> None:
    """See the head of this module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="show each sentence")
    parser.add_argument("--write", action="store_true", help="write the counts of all files")
    parser.add_argument("files", nargs="*", help="files or folders")
    given = parser.parse_args()
    found = list(offences(tracked(*given.files)))
    if given.write:
        lines = [f"{file}\t{kind}\t{count}\n" for (file, kind), count in counts(found).items()]
        COUNTS.write_text("".join(lines), "utf-8")
    elif given.list:
        for each in found:
            sys.stdout.write(f"{each.file}:{each.line}: {each.kind}: {each.sentence}\n")
    else:
        for (file, kind), count in counts(found).items():
            sys.stdout.write(f"{file}\t{kind}\t{count}\n")
    totals = Counter(each.kind for each in found)
    if totals:
        shown = ", ".join(f"{kind}: {count}" for kind, count in sorted(totals.items()))
        sys.stdout.write(f"{shown}\n")


if __name__ == "__main__":
    main()
