"""RabbitMQ servers for the tests, to start, stop, freeze and kill.

    with rabbitmq_server() as server, server.frozen():
        ...  # connections stay open, the server does not answer

Promises: each server has its own ports, folder and `epmd`, and ends with the test's process, even
if that gets SIGKILL; durable data is there after a restart. Known limit: a start takes some four
seconds, so all tests of a run share a server (the fixture `rabbitmq`). Debian: `apt install
rabbitmq-server`; the server that the package starts itself is not used.
"""

import os
import signal
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, run
from typing import IO

import aio_pika
from aio_pika.abc import AbstractChannel

from tests.support.certificates import write_certificate, write_signed_certificate
from tests.support.databases import shared_folder
from tests.support.ports import held_port
from tests.support.verdicts import Late
from tests.support.waiting import patient

USER, PASSWORD = "inbox", "hunter2"

_PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the program in the PATH changes the user
_READY_SECONDS = 60.0
# The shell reads a pipe from the test's process. When that process ends, the shell ends the server.
_GUARDED = '"$@" & read -r how; kill -${how:-KILL} $!; wait $!'

_CONFIG = f"""
listeners.tcp.1 = 127.0.0.1:{{port}}
listeners.ssl.1 = 127.0.0.1:{{tls_port}}
ssl_options.cacertfile = {{authority}}
ssl_options.certfile = {{certificate}}
ssl_options.keyfile = {{private_key}}
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = true
default_user = {USER}
default_pass = {PASSWORD}
max_message_size = 2097152
disk_free_limit.absolute = 1MB
log.console = false
"""
# One scheduler, which does not spin while it waits: other tests need the processors.
_SMALL = "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none"
# Milliseconds between two checks for late acknowledgements; in operation it is a minute.
_ADVANCED = "[{rabbit, [{channel_tick_interval, 200}]}]."


class RabbitMQServer:
    """A server; `address` is its address for settings."""

    host = "127.0.0.1"

    def __init__(self, folder: Path, ports: tuple[int, int, int, int]) -> None:
        """Start nothing yet. ports: without TLS, with TLS, of the node, of its epmd."""
        self._folder = folder
        self.port, self.tls_port, self._node_port, self._epmd_port = ports
        self.tls_files = write_certificate(_made(folder / "server"), "localhost")
        self.client_files = write_signed_certificate(_made(folder / "client"), "inboxd")
        self._node = f"inboxd-{self.port}@localhost"
        self._process: Popen[bytes] | None = None
        self._write_settings()

    @property
    def address(self) -> str:
        """The address, for settings of a broker."""
        return f"{self.host}:{self.port}"

    @property
    def tls_address(self) -> str:
        """The address with TLS, by the name in the certificate."""
        return f"localhost:{self.tls_port}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        assert _PROGRAM.exists(), "RabbitMQ is not installed: apt install rabbitmq-server"
        output = self._folder / "output"
        with output.open("wb") as written:
            self._process = _guarded([str(_PROGRAM)], self._environment(), written)
        deadline = time.monotonic() + patient(_READY_SECONDS)
        while b"completed" not in output.read_bytes():
            told = f"RabbitMQ does not start:\n{output.read_text(errors='replace')}"
            assert self._process.poll() is None, told
            if time.monotonic() >= deadline:
                raise Late(told)
            time.sleep(0.02)

    def stop(self, how: str = "TERM") -> None:
        """End the server with SIGTERM, or with SIGKILL as in a crash ("KILL"); wait for its end."""
        assert self._process is not None
        self._process.communicate(f"{how}\n".encode(), timeout=patient(60))
        self._process = None

    def revive(self) -> None:
        """Start the server, if a failed test has left it stopped."""
        if self._process is None or self._process.poll() is not None:
            self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the process during the block: connections stay open, the server does not answer."""
        pid = int((self._folder / "mnesia" / f"{self._node}.pid").read_text())
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def keep_declared(self) -> None:
        """Wait until declarations are on the disk.

        RabbitMQ answers a declaration before mnesia has written its commit; a server that is killed
        in between regards it as aborted when it starts again.
        """
        self.evaluate("mnesia:sync_log()")

    def close(self) -> None:
        """Kill the server, if it runs."""
        if self._process is not None:
            self.stop("KILL")

    def evaluate(self, expression: str) -> str:
        """Evaluate Erlang in the server, such as `application:get_env(rabbit, tcp_listeners)`."""
        (program,) = Path("/usr/lib/erlang/lib").glob("erl_interface-*/bin/erl_call")
        cookie = (self._folder / "home/.erlang.cookie").read_text()
        answer = run(
            [program, "-sname", self._node, "-c", cookie, "-e"],
            env=self._environment(),
            input=f"{expression}.\n",
            check=True,
            capture_output=True,
            text=True,
            timeout=patient(),
        ).stdout
        assert answer.startswith("{ok, "), answer
        return answer.removeprefix("{ok, ").removesuffix("}")

    def _write_settings(self) -> None:
        _made(self._folder / "home")
        config = _CONFIG.format(
            port=self.port,
            tls_port=self.tls_port,
            authority=self.client_files["authority"],
            **self.tls_files,
        )
        files = {"rabbitmq.conf": config, "advanced.config": _ADVANCED, "plugins": "[].", "env": ""}
        for name, text in files.items():
            (self._folder / name).write_text(text)

    def _environment(self) -> Mapping[str, str]:
        own = {
            "HOME": "home",
            "RABBITMQ_MNESIA_BASE": "mnesia",
            "RABBITMQ_LOG_BASE": "log",
            "RABBITMQ_CONFIG_FILE": "rabbitmq.conf",
            "RABBITMQ_ADVANCED_CONFIG_FILE": "advanced.config",
            "RABBITMQ_ENABLED_PLUGINS_FILE": "plugins",
            "RABBITMQ_CONF_ENV_FILE": "env",
            "RABBITMQ_GENERATED_CONFIG_DIR": "generated",
        }
        return {
            "PATH": os.environ["PATH"],
            **{name: str(self._folder / file) for name, file in own.items()},
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": self.host,
            "RUNNING_UNDER_SYSTEMD": "true",  # its start script then execs the server
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _SMALL,
        }


@contextmanager
def rabbitmq_server() -> Iterator[RabbitMQServer]:
    with ExitStack() as stack:
        folder = stack.enter_context(shared_folder())
        port, tls_port, node, epmd = (
            stack.enter_context(held_port()).getsockname()[1] for _ in range(4)
        )
        names = _guarded(["epmd", "-port", str(epmd), "-address", RabbitMQServer.host])
        stack.callback(names.communicate, timeout=patient())
        server = RabbitMQServer(folder, (port, tls_port, node, epmd))
        stack.callback(server.close)
        server.start()
        yield server


@asynccontextmanager
async def plain_channel(server: RabbitMQServer) -> AsyncIterator[AbstractChannel]:
    """A channel of a plain client."""
    async with await aio_pika.connect(
        host=server.host, port=server.port, login=USER, password=PASSWORD
    ) as connection:
        yield await connection.channel()


def _guarded(
    command: list[str],
    environment: Mapping[str, str] | None = None,
    output: IO[bytes] | int = DEVNULL,
) -> Popen[bytes]:
    return Popen(
        ["/bin/sh", "-c", _GUARDED, "guarded", *command],
        env=environment,
        stdin=PIPE,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
