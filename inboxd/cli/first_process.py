"""Process 1 of a container: it passes signals on, and waits for whatever ends below it.

What a handler's program leaves behind is handed to process 1, and stays in the system's table until
that waits for it. And process 1 hears no signal that it has no handler for, so a TERM in the first
second would be lost. So the daemon is a child of it there. Promises that the child gets each signal
once, also a terminal's Ctrl-C, and that its exit code is the process's own.
Known limit: what reaches process 1 before Python is there is lost, as for any program.
"""

import os
import signal

_PASSED_ON = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP),
    *(signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2),
)
# A signal ends a process with its number added to this, as a shell has it.
_BY_SIGNAL = 128


def be_a_child() -> None:
    """If this is process 1, go on as a child of it; else do nothing."""
    if os.getpid() == 1:
        lead()


def lead() -> None:
    """Go on as a child; this process only waits, and ends with it."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    child = os.fork()
    if child == 0:
        # A session of its own: what a terminal sends reaches it through its parent, once.
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        return
    for number in _PASSED_ON:
        signal.signal(number, lambda given, _: os.kill(child, given))
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    os._exit(_code_of(child))


def _code_of(child: int) -> int:
    """Wait for all that ends, until the child has; its exit code."""
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else _BY_SIGNAL - code
