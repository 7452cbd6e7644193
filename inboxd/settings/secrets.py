"""Secrets: the files they are read from.

Owns the names of secret files: systemd's `LoadCredential`, Docker's and Kubernetes' secrets.
*See:* `inboxd/model/masking.py`, which masks passwords wherever they are shown.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from inboxd.errors import SettingsError

DOCKER_SECRETS = Path("/run/secrets")

# The file's name -> the setting that it gives.
_FILES = {"database_password": "password", "database_dsn": "dsn"}


def read_secret(path: Path) -> str:
    """Read a secret file without its last line break; raise `SettingsError` if that fails."""
    try:
        return path.read_text(encoding="utf-8-sig").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{path}: cannot read the secret ({_reason(error)}); "
            "check the path and that the daemon's user may read it"
        ) from error


def find_secrets(environ: Mapping[str, str], docker: Path) -> Iterator[tuple[str, Path]]:
    """Yield (setting of `[database]`, file) for each secret file that exists, strongest first.

    systemd's folder, `$CREDENTIALS_DIRECTORY`, is private to the service, so it goes first.
    """
    credentials = environ.get("CREDENTIALS_DIRECTORY")
    for name, setting in _FILES.items():
        places = [Path(credentials, name)] if credentials else []
        yield from (
            (setting, path) for path in [*places, docker / f"inboxd_{name}"] if path.is_file()
        )


def find_webhook_secret(
    source: str, key: str, environ: Mapping[str, str], docker: Path
) -> Path | None:
    """Find the secret file of a webhook source's key, if there is one."""
    return _find(f"webhook_{source}_{key}", environ, docker)


def find_broker_password(broker: str, environ: Mapping[str, str], docker: Path) -> Path | None:
    """Find the secret file of a broker's password, if there is one."""
    return _find(f"broker_{broker}_password", environ, docker)


def _find(name: str, environ: Mapping[str, str], docker: Path) -> Path | None:
    credentials = environ.get("CREDENTIALS_DIRECTORY")
    if any(each in name for each in "/\\\0"):  # an invalid name, which is reported elsewhere
        return None
    places = [Path(credentials, name)] if credentials else []
    return next((each for each in [*places, docker / f"inboxd_{name}"] if each.is_file()), None)


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or "no reason given") if isinstance(error, OSError) else "not UTF-8"
