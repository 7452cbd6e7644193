"""The static files; an address changes with its content, so that a browser loads each once."""

import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_KINDS: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_YEAR_SECONDS: Final = 31_536_000
_HEADERS: Final = {
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class _File:
    kind: str
    digest: str
    content: bytes


class StaticFiles:
    PATH: Final = "/static/{digest}/{name}"

    def __init__(self) -> None:
        folder = resources.files("inboxd.admin.screens").joinpath("static")
        self._files = {
            file.name: _read(file.name, file.read_bytes())
            for file in folder.iterdir()
            if file.name.rpartition(".")[2] in _KINDS
        }

    def path(self, name: str) -> str:
        return self.PATH.format(digest=self._files[name].digest, name=name)

    async def answer(self, request: Request) -> Response:
        """The browser does not keep it under the digest of another release."""
        file = self._files.get(request.path_params["name"])
        if file is None:
            raise HTTPException(404)
        same = request.path_params["digest"] == file.digest
        headers = {
            **_HEADERS,
            "cache-control": f"public, max-age={_YEAR_SECONDS}, immutable" if same else "no-cache",
        }
        return Response(file.content, headers=headers, media_type=file.kind)


def _read(name: str, content: bytes) -> _File:
    digest = hashlib.sha256(content).hexdigest()[:12]
    return _File(_KINDS[name.rpartition(".")[2]], digest, content)
