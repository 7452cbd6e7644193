"""One port for all processes: their metrics on one page, and the health of each.

A child that does not answer within `_PATIENCE` is left out and counted. `/healthz` fails only if
the supervisor fails; `/readyz` is 200 after all children have been ready, while one is ready, since
they share the work; both report each child.
"""

import asyncio
import json
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import anyio
from starlette.requests import Request
from starlette.responses import Response

from inboxd.admin.server import HealthPart, pages, report, serve
from inboxd.daemon.children import Child
from inboxd.daemon.merge_metrics import CONTENT_TYPE, merged, own
from inboxd.daemon.supervised import Supervised

_OK = 200
_REQUEST = "HTTP/1.1\r\nhost: inboxd\r\nconnection: close\r\n\r\n"
# Seconds for a child's answer: less than the time limits of probes and scrapes.
_PATIENCE = 2.0


async def serve_all(listeners: Sequence[socket.socket], children: Supervised) -> None:
    """Serve until cancelled, on duplicates of the sockets, which stay open."""
    if not listeners:
        await anyio.sleep_forever()
    face = _Pages(children)
    application = pages(face.metrics, face.live, face.ready)
    await serve([each.dup() for each in listeners], application)


class _Pages:
    def __init__(self, children: Supervised) -> None:
        self._children = children
        self._unanswered = Counter[int]()

    async def metrics(self, request: Request) -> Response:
        names = request.query_params.getlist("name[]")
        query = urlencode([("name[]", name) for name in names])
        answers = await self._ask(f"/metrics?{query}")
        texts = {
            child.number: answer.text
            for child, answer in answers.items()
            if answer is not None and answer.status == _OK
        }
        figures = self._figures()
        if names:
            figures = {name: figures[name] for name in figures if name in names}
        page = merged(texts) + own(figures)
        return Response(page, headers={"content-type": CONTENT_TYPE})

    async def live(self, _: Request) -> Response:
        """Always 200: a blocked supervisor would not answer at all."""
        return report([self._part(number, {}) for number in self._children.numbers], ok=True)

    async def ready(self, _: Request) -> Response:
        """Whether a child works, and all children have been ready once."""
        answers = await self._ask("/readyz")
        parts = [self._part(number, answers) for number in self._children.numbers]
        up = self._children.have_been_ready and not self._children.draining
        return report(parts, ok=up and any(part.ok for part in parts))

    def _part(self, number: int, answers: "Mapping[Child, _ProcessPage | None]") -> HealthPart:
        name = f"process {number}"
        if (child := self._children.in_place(number)) is None:
            pause = self._children.pause(number)
            detail = "ended" if pause is None else f"starts again in {pause:.0f} s"
            return HealthPart(name, ok=False, detail=detail)
        if not child.ready:
            return HealthPart(name, ok=False, detail=f"pid {child.pid}: starting")
        # Another child may have had its place at the time of the question.
        wrong = _wrong(answers[child]) if child in answers else ""
        return HealthPart(name, ok=not wrong, detail=f"pid {child.pid}{wrong and ': '}{wrong}")

    async def _ask(self, page: str) -> "dict[Child, _ProcessPage | None]":
        """The answers of all ready children; None: a child did not answer."""
        places = [self._children.in_place(number) for number in self._children.numbers]
        asked = [child for child in places if child is not None and child.ready]
        answers = await asyncio.gather(*(_get(child.http, page) for child in asked))
        found = dict(zip(asked, answers, strict=True))
        self._unanswered.update(child.number for child, answer in found.items() if answer is None)
        return found

    def _figures(self) -> Mapping[str, Mapping[Any, int]]:
        children = self._children
        return {
            "inboxd_processes": children.states(),
            "inboxd_process_restarts_total": {n: children.restarts[n] for n in children.numbers},
            "inboxd_process_unanswered_total": {n: self._unanswered[n] for n in children.numbers},
        }


class _ProcessPage(NamedTuple):
    status: int
    text: str


def _wrong(answer: _ProcessPage | None) -> str:
    """The problem that a process's answer names; "" if it is healthy."""
    if answer is None:
        return "does not answer"
    if answer.status == _OK:
        return ""
    with suppress(ValueError, KeyError, TypeError):
        parts = [part for part in json.loads(answer.text)["parts"] if not part["ok"]]
        return "; ".join(f"{part['name']}: {part['detail']}" for part in parts)
    return f"answers {answer.status}"


async def _get(path: Path | None, page: str) -> _ProcessPage | None:
    """A process's page; None: no complete answer in time."""
    if path is None:
        return None
    with suppress(OSError, ValueError, IndexError), anyio.move_on_after(_PATIENCE):
        reader, writer = await asyncio.open_unix_connection(path)
        try:
            writer.write(f"GET {page} {_REQUEST}".encode())
            answer = await reader.read()
        finally:
            writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        return _ProcessPage(int(head.split()[1]), body.decode())
    return None
