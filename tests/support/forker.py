"""The process that forks workers: it imports the daemon once, and reports each worker's exit code.

    python -m tests.support.forker 5  # the file descriptor of the socket to the tests

See: tests/support/forked.py, which starts this process and sends its requests.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
from contextlib import suppress
from typing import NoReturn

# The modules that `inboxd run` and `receive` import, including lazy imports.
_IMPORTS = (
    "inboxd.main.app",
    "inboxd.daemon.receiver",
    "inboxd.daemon.starting",
    "anyio._backends._asyncio",
    "uvicorn.lifespan.off",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.h11_impl",
    "uvicorn.protocols.websockets.auto",
)


def _serve(control: socket.socket) -> None:
    for module in _IMPORTS:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # otherwise the first collection of each worker copies every page
    ends: dict[int, int] = {}

    def reap(*_: object) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                end = ends.pop(pid)
                with suppress(BrokenPipeError):
                    os.write(end, str(os.waitstatus_to_exitcode(status)).encode())
                os.close(end)

    signal.signal(signal.SIGCHLD, reap)
    requests = control.makefile("rb")
    while True:
        _, files, _, _ = socket.recv_fds(control, 1, 3)
        if not files:  # the tests have ended
            return
        arguments, environment = json.loads(requests.readline())
        output, inherited, end = files
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        if (pid := os.fork()) == 0:
            for file in (control.fileno(), end, *ends.values()):
                os.close(file)
            _become_inboxd(arguments, environment, output)
        ends[pid] = end
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.close(output)
        os.close(inherited)
        control.sendall(str(pid).encode())


def _become_inboxd(arguments: list[str], environment: dict[str, str], output: int) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    # An interpreter does this at its start.
    folders = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [folder for folder in folders if folder and folder not in sys.path]
    sys.argv = ["inboxd", *arguments]
    runpy.run_module("inboxd", run_name="__main__", alter_sys=True)
    raise SystemExit


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
