"""A target that misbehaves on demand: the accounts service or the payment gateway.

Owns its ledger, a file that outlives the process. A deed is one account created, or one charge
made. Promises: the contract of `accounts.contract`: one deed for each key, and the first answer for
each repetition. The ledger lists deeds by user, so a caller that changes its key is detected.
`PUT /behaviour` sets `delay` (seconds between the deed and its answer), `status` (answer this
status and do nothing) and `lose_every` (cut off the first answer to every n-th deed).
"""

import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

_TABLES = """
    CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, body TEXT, answer TEXT);
    CREATE TABLE IF NOT EXISTS deeds (
        number INTEGER PRIMARY KEY, user_id TEXT, correlation_id TEXT, path TEXT);
    CREATE TABLE IF NOT EXISTS asked (what TEXT PRIMARY KEY, times INTEGER);
"""


@dataclass(slots=True)
class Behaviour:
    """How the target answers from now on."""

    delay: float = 0.0
    status: int = 0
    lose_every: int = 0


class Done(NamedTuple):
    """The answer to one request, and its deed."""

    status: int
    answer: dict[str, Any]
    deed: int = 0  # its number; 0: nothing was done

    @property
    def is_repeated(self) -> bool:
        """Whether this is the first answer again."""
        return self.status < 300 and not self.deed


class Ledger:
    """The deeds, by key and by user."""

    def __init__(self, path: str) -> None:
        """Open the file; create it if it is missing."""
        self._lock = threading.Lock()
        self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._file.executescript(_TABLES)

    def do(self, path: str, key: str, body: dict[str, Any], correlation_id: str) -> Done:
        """Do the deed, unless the key is known: a known key gets its first answer, or 422."""
        text = json.dumps(body, sort_keys=True)
        with self._transaction() as file:
            known = file.execute(
                "SELECT body, answer FROM answers WHERE key = ?", (key,)
            ).fetchone()
            if known is not None:
                if known[0] != text:
                    return Done(422, {"error": f"{key!r} came with another body"})
                self._count(file, "repeated")
                return Done(201, json.loads(known[1]))
            number = file.execute(
                "INSERT INTO deeds (user_id, correlation_id, path) VALUES (?, ?, ?)",
                (body["user_id"], correlation_id, path),
            ).lastrowid
            answer = {"number": number}
            file.execute("INSERT INTO answers VALUES (?, ?, ?)", (key, text, json.dumps(answer)))
        return Done(201, answer, number or 0)

    def note(self, what: str) -> None:
        with self._transaction() as file:
            self._count(file, what)

    def read(self) -> dict[str, Any]:
        """The ledger: `{"deeds": [[user id, correlation id], ...], "counts": {what: times}}`."""
        with self._lock:
            deeds = self._file.execute("SELECT user_id, correlation_id FROM deeds").fetchall()
            counts = dict(self._file.execute("SELECT what, times FROM asked").fetchall())
        return {"deeds": deeds, "counts": counts}

    def _count(self, file: sqlite3.Connection, what: str) -> None:
        file.execute(
            "INSERT INTO asked VALUES (?, 1) ON CONFLICT (what) DO UPDATE SET times = times + 1",
            (what,),
        )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._file.execute("BEGIN IMMEDIATE")
            try:
                yield self._file
            except BaseException:
                self._file.execute("ROLLBACK")
                raise
            self._file.execute("COMMIT")


class _CutOff(Response):
    """An answer that is cut off: the connection closes before the body ends."""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"100")]
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})
        raise ConnectionResetError("the answer is cut off, as `lose_every` demands")


def create(ledger: str | None = None) -> Starlette:
    """The target, for `uvicorn --factory`; TARGET_LEDGER names the file of its ledger."""
    app = Starlette(
        routes=[
            Route("/accounts", _do, methods=["POST"]),
            Route("/charges", _do, methods=["POST"]),
            Route("/behaviour", _behave, methods=["PUT"]),
            Route("/ledger", _read_ledger),
        ]
    )
    app.state.ledger = Ledger(ledger or os.environ["TARGET_LEDGER"])
    app.state.behaviour = Behaviour()
    return app


async def _do(request: Request) -> Response:
    ledger, behaviour = request.app.state.ledger, request.app.state.behaviour
    if behaviour.status:
        await anyio.to_thread.run_sync(ledger.note, str(behaviour.status))
        headers = {"Retry-After": "1"}
        return JSONResponse({"error": "not now: retry later"}, behaviour.status, headers)
    key = request.headers.get("Idempotency-Key")
    if not key:
        return JSONResponse({"error": "Idempotency-Key is missing"}, 400)
    named = request.headers.get("X-Correlation-Id", "")
    arguments = (request.url.path, key, await request.json(), named)
    done = await anyio.to_thread.run_sync(ledger.do, *arguments)
    await anyio.sleep(behaviour.delay)
    if behaviour.lose_every and done.deed and done.deed % behaviour.lose_every == 0:
        await anyio.to_thread.run_sync(ledger.note, "lost")
        return _CutOff()
    headers = {"Idempotent-Replayed": "true"} if done.is_repeated else {}
    return JSONResponse(done.answer, done.status, headers)


async def _behave(request: Request) -> Response:
    request.app.state.behaviour = Behaviour(**await request.json())
    return Response(status_code=204)


async def _read_ledger(request: Request) -> Response:
    return JSONResponse(await anyio.to_thread.run_sync(request.app.state.ledger.read))


@contextmanager
def served(app: Starlette) -> Iterator[int]:
    """Serve an application in a thread of this process, for tests; yields the port."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            thread.join(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
