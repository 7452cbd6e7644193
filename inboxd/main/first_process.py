"""Process 1 of a container: it forwards signals to the daemon, and reaps orphaned processes.

An orphan stays in the system's table until process 1 waits for it, and the kernel drops signals for
which process 1 has no handler: therefore the daemon runs as a child. The child gets each signal
once, also a terminal's Ctrl-C, and process 1 exits with its code. Known limit: a signal that
reaches process 1 before Python has started is lost.
"""

import os
import signal

_FORWARDED = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP),
    *(signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2),
)
# Added to a signal's number, as shells do: the exit code of a process that it ended.
_BY_SIGNAL = 128


def be_a_child() -> None:
    if os.getpid() == 1:
        lead()


def lead() -> None:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    child = os.fork()
    if child == 0:
        # In its own session the child gets a terminal's signal once, from its parent only.
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        return
    for number in _FORWARDED:
        signal.signal(number, lambda given, _: os.kill(child, given))
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    os._exit(_code_of(child))


def _code_of(child: int) -> int:
    """Reap every process that ends until the child has ended; return the child's exit code."""
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        assert ended is not None  # noqa: S101 - without WNOHANG it waits
        if ended.si_pid == child:
            # After waitpid another process may get the child's id: forward no more signals.
            signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
        _, status = os.waitpid(ended.si_pid, 0)
        if ended.si_pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else _BY_SIGNAL - code
