"""The navigation: links to pages, in groups; each link has a page."""

from collections.abc import Collection
from typing import Final, NamedTuple


class PageLink(NamedTuple):
    """A link. key: the letter that opens it after a `g`."""

    path: str
    title: str
    icon: str
    key: str = ""


GROUPS: Final[tuple[tuple[str, tuple[PageLink, ...]], ...]] = (
    ("", (PageLink("/", "Overview", "overview", "o"),)),
    (
        "Work",
        (
            PageLink("/events", "Events", "events", "e"),
            PageLink("/commands", "Commands", "commands", "c"),
            PageLink("/batches", "Batches", "batches", "b"),
            PageLink("/workflows", "Workflows", "workflows", "w"),
            PageLink("/failures", "Failures", "failures", "f"),
        ),
    ),
    (
        "Lanes",
        (
            PageLink("/queues", "Queues", "queues"),
            PageLink("/topics", "Topics", "topics"),
            PageLink("/types", "Types", "types"),
            PageLink("/schedules", "Schedules", "schedules"),
        ),
    ),
    (
        "In and out",
        (
            PageLink("/endpoints", "Endpoints", "endpoints"),
            PageLink("/sources", "Sources", "sources"),
            PageLink("/breakers", "Breakers", "breakers"),
        ),
    ),
    (
        "Operation",
        (
            PageLink("/workers", "Workers", "workers"),
            PageLink("/history", "History", "history"),
            PageLink("/statement", "Daily statement", "statement"),
            PageLink("/doctor", "Doctor", "doctor"),
            PageLink("/actions", "Bulk actions", "actions"),
            PageLink("/audit", "Audit", "audit"),
        ),
    ),
)


def navigation(paths: Collection[str]) -> list[tuple[str, list[PageLink]]]:
    there = [(title, [each for each in group if each.path in paths]) for title, group in GROUPS]
    return [(title, group) for title, group in there if group]
