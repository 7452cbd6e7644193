"""Formats the body of a receipt."""

import base64


def readable(body: bytes | None) -> object:
    import orjson

    if body is None:
        return None
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return body.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}
