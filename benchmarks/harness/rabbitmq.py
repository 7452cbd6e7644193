"""A RabbitMQ server of the benchmark's own, with default settings.

Promises: its ports, its files and its `epmd` are its own, and it ends with the benchmark. Debian:
`apt install rabbitmq-server`; the server that the package starts is never used.
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen

from inboxd.embedded import free_port

# Debian's program in the PATH changes the user; this one does not.
_PLACES = f"/usr/lib/rabbitmq/bin{os.pathsep}{os.environ.get('PATH', os.defpath)}"
_READY_SECONDS = 120.0
_STOP_SECONDS = 60.0


@contextmanager
def rabbitmq_server(folder: Path) -> Iterator[str]:
    """Run a server; yields its `host:port`. Raises SystemExit if the server does not start."""
    program = shutil.which("rabbitmq-server", path=_PLACES)
    if program is None:
        raise SystemExit("rabbitmq-server is not installed: apt install rabbitmq-server")
    home = folder / "rabbitmq"
    home.mkdir()
    (home / "plugins").write_text("[].")
    port, node_port, names_port = (free_port() for _ in range(3))
    (home / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\n")
    environment = {
        **os.environ,
        "HOME": str(home),
        "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": str(home / "env"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
        "RABBITMQ_GENERATED_CONFIG_DIR": str(home / "generated"),
        "RABBITMQ_NODENAME": f"bench-{port}@localhost",
        "RABBITMQ_DIST_PORT": str(node_port),
        "ERL_EPMD_PORT": str(names_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RUNNING_UNDER_SYSTEMD": "true",  # the shell process becomes the server
    }
    with ExitStack() as stack:
        # Started here: an epmd that the server starts would outlive it.
        epmd = shutil.which("epmd") or "epmd"
        names = Popen([epmd, "-port", str(names_port), "-address", "127.0.0.1"], stderr=DEVNULL)
        stack.callback(_end, names)
        output = home / "output"
        with output.open("wb") as written:
            server = Popen([program], env=environment, stdout=written, stderr=STDOUT)
        stack.callback(_end, server)
        _wait(server, output)
        yield f"127.0.0.1:{port}"


def _wait(server: "Popen[bytes]", output: Path) -> None:
    """Wait until the server has started."""
    deadline = time.monotonic() + _READY_SECONDS
    while b"completed" not in output.read_bytes():
        if server.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"RabbitMQ does not start:\n{output.read_text(errors='replace')}")
        time.sleep(0.05)


def _end(process: "Popen[bytes]") -> None:
    process.terminate()
    process.wait(_STOP_SECONDS)
