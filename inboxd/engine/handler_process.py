"""Runs a handler in a process of its own: both sides of the call.

A handler, its libraries and the programs that they start cannot disturb the calls between the
processes, even if they use standard input or output. Such output is dropped.
"""

import io
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

import anyio.to_process
from anyio import CapacityLimiter

_STANDARD = range(3)


async def run(func: Callable[[Any], object], payload: object, limiter: CapacityLimiter) -> object:
    """Run a handler's function in a process. Raises its error, or BrokenWorkerProcess."""
    # Sent as bytes: unpickling imports the plugin, whose import may already write output.
    call = pickle.dumps((func, payload), protocol=pickle.HIGHEST_PROTOCOL)
    return await anyio.to_process.run_sync(_answer, call, cancellable=True, limiter=limiter)


def _answer(call: bytes) -> object:
    _put_calls_aside()
    func, payload = pickle.loads(call)  # noqa: S301 - from the parent process
    return func(payload)


def _put_calls_aside() -> None:
    """Calls leave descriptors 0 and 1, once in the life of a child.

    anyio protects them only from Python's `sys.stdin` and `sys.stdout`, not from direct writes or
    from programs that inherit them.
    """
    for stream, mode in ((sys.__stdin__, "rb"), (sys.__stdout__, "wb")):
        if stream is None or (standard := stream.fileno()) > _STANDARD[-1]:
            continue
        raw: Any = getattr(stream.buffer, "raw", stream.buffer)
        # Changed in place, since anyio holds the stream. Programs do not inherit a duplicate.
        io.FileIO.__init__(raw, os.dup(standard), mode)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, standard)
        os.close(nowhere)
    own: Any = sys
    own.__stdin__, own.__stdout__ = sys.stdin, sys.stdout
