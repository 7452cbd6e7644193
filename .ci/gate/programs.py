"""Programs that tests need: finds missing ones, and installs them with apt-get."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from gate.settings import Program

# Debian installs servers outside a user's PATH.
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))
_APT_SECONDS = 600.0


class ProgramsMissing(Exception):
    """Programs are missing and cannot be installed; the message names them."""


def install_missing(programs: Iterable[Program]) -> list[str]:
    """Install the packages of missing programs; return their names. Raises ProgramsMissing."""
    wanted = tuple(programs)
    missing = [each.package for each in wanted if not _is_here(each)]
    if not missing:
        return []
    apt = shutil.which("apt-get", path=_PATH)
    if apt is None or os.geteuid() != 0:
        raise ProgramsMissing(
            f"Tests need programs of packages that are not installed: {', '.join(missing)}. "
            "Install them, or run .ci/run as root on a machine with apt-get."
        )
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = [apt, "-qq", "install", "--no-install-recommends", *missing]
    for command in ([apt, "-qq", "update"], install):
        try:
            done = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=_APT_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise ProgramsMissing(
                f"apt-get did not install {', '.join(missing)} within {_APT_SECONDS:.0f} seconds."
            ) from error
        if done.returncode != 0:
            raise ProgramsMissing(
                f"apt-get could not install {', '.join(missing)}:\n"
                f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
    if left := [each.package for each in wanted if not _is_here(each)]:
        raise ProgramsMissing(
            f"apt-get installed {', '.join(missing)}, but the programs of {', '.join(left)} are "
            "still not found: correct `found` in .ci/gate.toml."
        )
    return missing


def _is_here(program: Program) -> bool:
    return any(map(_is_found, program.found))


def _is_found(name: str) -> bool:
    if name.startswith("/"):
        return any(Path("/").glob(name.lstrip("/")))
    return shutil.which(name, path=_PATH) is not None
