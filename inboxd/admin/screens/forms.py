"""Reads the forms of the screens, up to a size, and refuses all other bodies."""

from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import parse_qs

from starlette.requests import Request

from inboxd.admin.answers import RequestRefused


async def read_form(request: Request, most_bytes: int, most_fields: int) -> Mapping[str, str]:
    """The first value of each field counts. Raises RequestRefused."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most_bytes:
            detail = f"the form has more than {most_bytes} bytes"
            raise RequestRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
    try:
        found = parse_qs(body.decode("utf-8"), strict_parsing=True, max_num_fields=most_fields)
    except ValueError:
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "this is not a form of the screens") from None
    return {name: values[0] for name, values in found.items()}
