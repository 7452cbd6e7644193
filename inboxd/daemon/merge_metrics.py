"""The metrics of all children as one page: each sample with the number of its process.

The page is valid: each family once, with one HELP and one TYPE, and no two equal samples. Known
limit: HELP, TYPE and the samples of a family must be adjacent in the pages.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# The supervisor's own families: name, type, labels, help.
FAMILIES = (
    (
        "inboxd_processes",
        "gauge",
        ("state",),
        "Processes of a supervisor: `ready`, `starting`, `leaving`, or `waiting` to start again.",
    ),
    (
        "inboxd_process_restarts_total",
        "counter",
        ("process",),
        "Processes that ended, or were killed by the watchdog, and were started again.",
    ),
    (
        "inboxd_process_unanswered_total",
        "counter",
        ("process",),
        "Requests for metrics or health that a process did not answer in time.",
    ),
)


@dataclass(slots=True)
class _Family:
    comments: list[str] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)


def merged(pages: Mapping[int, str]) -> str:
    families: dict[str, _Family] = {}
    for number, page in pages.items():
        for family, comments, samples in _families(page):
            of_all = families.setdefault(family, _Family(comments))
            of_all.samples += (_labelled(sample, number) for sample in samples)
    return "".join(
        f"{line}\n" for each in families.values() for line in (*each.comments, *each.samples)
    )


def own(figures: Mapping[str, Mapping[str, int]]) -> str:
    """Write the supervisor's own requested families; figures: by name, then by label."""
    lines = []
    for name, kind, (label,), text in (each for each in FAMILIES if each[0] in figures):
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        lines += (f'{name}{{{label}="{key}"}} {value}' for key, value in figures[name].items())
    return "".join(f"{line}\n" for line in lines)


def _families(page: str) -> Iterator[tuple[str, list[str], list[str]]]:
    name, comments, samples = "", list[str](), list[str]()
    for line in page.split("\n"):  # not splitlines: a label may contain other line ends
        if not line.startswith("#"):
            samples += [line] if line else []
        elif (of := line.split(" ", 3)[2]) != name:
            if name:
                yield name, comments, samples
            name, comments, samples = of, [line], []
        else:
            comments.append(line)
    if name:
        yield name, comments, samples


def _labelled(sample: str, number: int) -> str:
    name, brace, labels = sample.partition("{")
    if brace and " " not in name:
        return f'{name}{{process="{number}",{labels}'
    name, _, value = sample.partition(" ")
    return f'{name}{{process="{number}"}} {value}'
