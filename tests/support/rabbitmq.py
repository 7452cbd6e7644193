"""RabbitMQ servers of the tests' own: started, stopped, and stopped in their tracks.

Promises: each has ports, a folder and an `epmd` of its own, and ends with its owner, SIGKILL
included; what it stores durably is there again when it is started again. Known limit: a start takes
some four seconds, so all tests of a run share a server (the fixture `rabbitmq`). Debian: `apt
install rabbitmq-server`; the server that this starts by itself is never used.
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

_PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the one in the PATH changes the user
_READY_SECONDS = 60.0
# The shell holds the pipe from its owner; when that ends, however it does, the server does.
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
# How often acknowledgements that are late are looked for: a minute in operation.
_ADVANCED = "[{rabbit, [{channel_tick_interval, 200}]}]."


class RabbitMQServer:
    """A server; `address` is where it is, as settings have it."""

    host = "127.0.0.1"

    def __init__(self, folder: Path, ports: tuple[int, int, int, int]) -> None:
        """Start nothing yet; `ports`: without and with TLS, of the node, of its epmd."""
        self._folder = folder
        self.port, self.tls_port, self._node_port, self._epmd_port = ports
        self.tls_files = write_certificate(_made(folder / "server"), "localhost")
        self.client_files = write_signed_certificate(_made(folder / "client"), "inboxd")
        self._node = f"inboxd-{self.port}@localhost"
        self._process: Popen[bytes] | None = None
        self._write_settings()

    @property
    def address(self) -> str:
        """As settings have it."""
        return f"{self.host}:{self.port}"

    @property
    def tls_address(self) -> str:
        """The same, with TLS and by the name in its certificate."""
        return f"localhost:{self.tls_port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
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
        """End it and wait for that; "KILL" as a crash does."""
        assert self._process is not None
        self._process.communicate(f"{how}\n".encode(), timeout=patient(60))
        self._process = None

    def revive(self) -> None:
        """Start it, if a test that failed has left it stopped."""
        if self._process is None or self._process.poll() is not None:
            self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stopped in its tracks meanwhile: connections stay, and nobody answers."""
        pid = int((self._folder / "mnesia" / f"{self._node}.pid").read_text())
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def keep_declared(self) -> None:
        """Wait until what was declared is on the disk.

        A declaration is answered before mnesia has written that it was committed; a server that is
        killed in between takes it for aborted when it starts again.
        """
        self.evaluate("mnesia:sync_log()")

    def close(self) -> None:
        """End it, if it runs."""
        if self._process is not None:
            self.stop("KILL")

    def evaluate(self, expression: str) -> str:
        """What an expression of Erlang is there: `application:get_env(rabbit, tcp_listeners)`."""
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
            "RUNNING_UNDER_SYSTEMD": "true",  # its shell becomes the server
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _SMALL,
        }


@contextmanager
def rabbitmq_server() -> Iterator[RabbitMQServer]:
    """A running server."""
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
