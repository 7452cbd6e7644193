"""Each benchmark runs with few rows: the tests check that it measures, not how fast it is.

CI runs one of the drains, since the others use the same script.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lines_of(script: str, *options: str, rows: int = 200) -> list[list[str]]:
    """The table that a benchmark prints: a list of cells for each line."""
    ran = subprocess.run(
        [sys.executable, f"benchmarks/{script}.py", f"--rows={rows}", "--repeat=1", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "A fixed loop took" in ran.stdout
    table = [line.split(" | ") for line in ran.stdout.splitlines() if line.startswith("| ")]
    return [line for line in table if line[0] != "| what"]


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "no-op commands, two workers",
        *(
            pytest.param(name, marks=pytest.mark.soak)
            for name in (
                "commands with one insert",
                "no-op events of 8 KB",
                "each send one command",
                "no-op commands, one a page",
            )
        ),
    ],
)
def test_drain(name: str) -> None:
    lines = lines_of("drain", f"--lines={name}")
    assert lines
    for line in lines:
        assert name in line[0]
        assert re.match(r"[\d,.]+/s", line[1])


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "rows", "options"),
    [
        ("bursts", 500, []),
        ("consume", 1_500, []),
        ("counting", 400, ["--lines=no-op"]),
        ("dedup", 1_000, ["--set=wal_compression=pglz", "--set=max_wal_size=64MB"]),
        ("emit", 1_000, []),
        ("growth", 500, ["--lines=alone"]),
        ("inserts", 20_000, ["--lines=by 1 client"]),
        ("latency", 20, []),
        ("memory", 1_000, []),
        ("receive", 200, ["--lines=single bodies, one"]),
        ("relay", 1_500, ["--lines=no keys"]),
        ("spool", 2_000, ["--lines=down"]),
        ("snapshot", 500, ["--lines=, a nap"]),
        ("viewers", 8_000, ["--lines=of the worker"]),
    ],
)
def test_others(script: str, rows: int, options: list[str]) -> None:
    lines = lines_of(script, *options, rows=rows)
    assert lines
    assert all(
        re.match(r"[\d,.]+( \([\d,.]+ to [\d,.]+\))?( MB| ms| µs|/s)", line[1]) for line in lines
    )
    if script in ("consume", "relay"):
        assert all(re.match(r"[\d.]+ \+ [\d.]+", line[6]) for line in lines), "worker + server"


@pytest.mark.long
def test_peers() -> None:
    pytest.importorskip("pgqueuer", reason="the extra `bench` is not installed")
    assert [line[0].rpartition(" ")[2] for line in lines_of("peers", rows=500)] == [
        "pgqueuer",
        "procrastinate",
        "pgqueuer",
    ]


@pytest.mark.long
def test_retention() -> None:
    lines = [line for line in lines_of("retention", rows=500) if line[0] != "| stretch"]
    assert [line[0] for line in lines] == [
        "| no drop",
        "| the owner drops one",
        "| the worker's role drops one",
        "| no drop, again",
    ]
    assert all(re.fullmatch(r"[1-9][\d,]*/s", line[2]) for line in lines)
    assert all(re.fullmatch(r"\d+ ms \|", line[6]) for line in lines)


@pytest.mark.long
def test_wal() -> None:
    """Pages written as a whole cost bytes."""
    lines = lines_of("wal", "--lines=no-op events", rows=2_000)
    found = {line[0].removeprefix("| "): line[1:] for line in lines}
    assert {"no-op events", "inserts of no-op events"} <= found.keys()
    for whole, without, commits, cpu in found.values():
        bytes_ = [float(each.removesuffix(" B").replace(",", "")) for each in (whole, without)]
        assert bytes_[0] > bytes_[1] > 200
        assert float(commits) > 0
        assert re.match(r"[\d.]+ \+ [\d.]+", cpu)
