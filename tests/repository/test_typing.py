"""What a plugin author's editor shows: mypy --strict accepts what is right, and finds mistakes."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def errors_of(name: str, tmp_path: Path) -> set[tuple[int, str]]:
    """Line and code of each error that mypy reports for a file in tests/typing."""
    options = ["--strict", "--config-file=", "--follow-imports=silent", f"--cache-dir={tmp_path}"]
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", *options, f"tests/typing/{name}"],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not ran.stderr, ran.stderr
    found = re.findall(rf"{name}:(\d+): error: .*\[([a-z-]+)\]", ran.stdout)
    return {(int(line), code) for line, code in found}


def expected(name: str) -> set[tuple[int, str]]:
    lines = (ROOT / "tests/typing" / name).read_text().splitlines()
    marked = ((number, re.search(r"# E: (.+)", line)) for number, line in enumerate(lines, 1))
    return {(number, code) for number, found in marked if found for code in found[1].split()}


def test_a_right_plugin_is_accepted(tmp_path: Path) -> None:
    assert errors_of("accepted.py", tmp_path) == set()


def test_mistakes_are_found_where_they_are(tmp_path: Path) -> None:
    assert errors_of("refused.py", tmp_path) == expected("refused.py")
