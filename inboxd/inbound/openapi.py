"""Describes the receiver in OpenAPI 3.1; it has no secret, address or limit that helps attacks."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from inboxd.settings import InboundHttp, WebhookSource

Json = dict[str, Any]

MEDIA_TYPES = {
    "json": "application/json",
    "form": "application/x-www-form-urlencoded",
    "text": "text/plain",
}

# The headers that authenticate a request.
_SIGNATURES: Mapping[str, tuple[str, ...]] = {
    "standard_webhooks": ("webhook-id", "webhook-timestamp", "webhook-signature"),
    "svix": ("svix-id", "svix-timestamp", "svix-signature"),
    "stripe": ("stripe-signature",),
    "github": ("x-hub-signature-256",),
}

_REFUSALS: Mapping[HTTPStatus, str] = {
    HTTPStatus.BAD_REQUEST: "The request's authentication is missing, malformed or stale.",
    HTTPStatus.UNAUTHORIZED: "No current key of the source has signed the request.",
    HTTPStatus.FORBIDDEN: "The sender's address is not in the source's list.",
    HTTPStatus.NOT_FOUND: "The source does not exist.",
    HTTPStatus.REQUEST_TIMEOUT: "The body did not arrive in time.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is larger than the source allows.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is compressed.",
    HTTPStatus.TOO_MANY_REQUESTS: "More requests than the rate allows: send it again later.",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "More than 100 headers, or than 32 KiB of them.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The receiver failed: send it again later.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The request cannot be stored now: send it again later.",
}
_WAITS = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_WAIT = {
    "Retry-After": {
        "description": "Seconds until the request may be sent again.",
        "schema": {"type": "integer", "minimum": 1},
    }
}
_UUID = {"type": "string", "format": "uuid"}
_ACCEPTED: Json = {
    "type": "object",
    "description": "The request is stored durably. A repetition gets the same events, and a "
    "receipt of its own.",
    "required": ["receipt", "events"],
    "additionalProperties": False,
    "properties": {
        "receipt": {**_UUID, "description": "The id of this request."},
        "events": {"type": "array", "items": _UUID, "description": "The ids of its events."},
    },
}
_PROBLEM: Json = {
    "type": "object",
    "description": "A refusal (RFC 9457): its status, without its cause.",
    "required": ["type", "title", "status"],
    "additionalProperties": False,
    "properties": {
        "type": {"type": "string", "const": "about:blank"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
    },
}


def openapi(http: InboundHttp, sources: Mapping[str, WebhookSource], version: str) -> Json:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Webhooks",
            "version": version,
            "description": "A 2xx is sent only when the request is stored durably. After any other "
            "answer, or none, send the request again.",
        },
        "servers": [{"url": base_url(http)}],
        "paths": {f"/in/{name}": {"post": _post(name, one, http)} for name, one in sources.items()},
        "components": {
            "schemas": {"Accepted": _ACCEPTED, "Problem": _PROBLEM},
            "securitySchemes": {
                key: scheme
                for name, source in sources.items()
                for key, scheme in _security(name, source).items()
            },
        },
    }


def base_url(http: InboundHttp) -> str:
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - mapped, not listened on
    host = here.get(http.host, http.host)
    scheme = "http" if http.certificate is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{http.port}"


def _post(name: str, source: WebhookSource, http: InboundHttp) -> Json:
    return {
        "operationId": f"receive_{name}",
        "summary": f"Receive a webhook of {name}",
        "security": [{key: [] for key in _security(name, source)}],
        "requestBody": {
            "required": True,
            "content": {MEDIA_TYPES[source.body]: {"schema": _schema(source)}},
        },
        "responses": {
            str(source.answer): _success(source.answer),
            **{str(int(status)): _refusal(status) for status in _statuses(source, http)},
        },
    }


def _schema(source: WebhookSource) -> Json:
    match source.body:
        case "json":
            return {}
        case "form":
            return {"type": "object", "additionalProperties": True}
    return {"type": "string"}


def _success(status: int) -> Json:
    description = "The request is stored durably."
    if status == HTTPStatus.NO_CONTENT:
        return {"description": description}
    return {
        "description": description,
        "content": {"application/json": {"schema": _ref("Accepted")}},
    }


def _refusal(status: HTTPStatus) -> Json:
    return {
        "description": _REFUSALS[status],
        "content": {"application/problem+json": {"schema": _ref("Problem")}},
        **({"headers": _WAIT} if status in _WAITS else {}),
    }


def _statuses(source: WebhookSource, http: InboundHttp) -> Iterable[HTTPStatus]:
    for status in _REFUSALS:
        if status is HTTPStatus.FORBIDDEN and not source.addresses:
            continue
        limited = source.rate is not None or http.rate_per_address is not None
        if status is HTTPStatus.TOO_MANY_REQUESTS and not limited:
            continue
        yield status


def _security(name: str, source: WebhookSource) -> Json:
    """The security schemes of a source; a request needs all of them."""
    own_header = str(source.options.get("header", "authorization")).lower()
    if source.scheme == "bearer" and own_header == "authorization":
        return {name: {"type": "http", "scheme": "bearer"}}
    if source.scheme == "client_certificate":
        return {name: {"type": "mutualTLS"}}
    headers = (own_header,) if source.scheme == "bearer" else _SIGNATURES.get(source.scheme, ())
    if source.hmac is not None:
        own = source.hmac
        headers = tuple(filter(None, (own.header, own.timestamp_header, own.id_header)))
    return {
        f"{name}.{header}": {
            "type": "apiKey",
            "in": "header",
            "name": header,
            "description": f"A header of the scheme {source.scheme}.",
        }
        for header in headers
    }


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}
