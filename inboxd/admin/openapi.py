"""The OpenAPI 3.1 document of the admin API; it does not describe the keys of a row."""

from importlib.metadata import version
from typing import Any, get_args

from inboxd.model.lifecycle import Status
from inboxd.store.finding import When

Json = dict[str, Any]

_PROBLEM: Json = {
    "type": "object",
    "description": "A refusal (RFC 9457), with the text that the command line prints.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "const": "about:blank"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}
_REFUSALS = {
    "400": "An id, a query or a body is not valid.",
    "401": "The token is missing or not valid.",
    "404": "There is no such row.",
    "429": "Too many requests: try again later.",
    "503": "The database does not answer: try again later.",
}
_OF_LISTS = {each: text for each, text in _REFUSALS.items() if each != "404"} | {
    "403": "The filter searches contents that are hidden.",
}
_OF_ACTIONS = {
    "403": "The token may only read.",
    "409": "The row's status does not allow the action: nothing was changed.",
    "413": "The body is too large.",
}
_NUMBERS: Json = {"type": "array", "items": {"type": "integer"}}
_REPLAYED: Json = {
    "type": "object",
    "required": ["old_id", "new_id"],
    "properties": {"old_id": {"type": "integer"}, "new_id": {"type": "integer"}},
}
_DONE: dict[str, tuple[str, Json]] = {
    "replay": (
        "Run a dead letter again now.",
        {"replayed": {"type": "array", "items": _REPLAYED}},
    ),
    "dismiss": ("Close a dead letter without running it again.", {"dismissed": _NUMBERS}),
    "cancel": (
        "Cancel a command that has not ended; a running one is asked to stop.",
        {"cancelled": _NUMBERS, "requested": _NUMBERS},
    ),
}


def openapi(prefix: str = "") -> Json:
    return {
        "openapi": "3.1.0",
        "info": {"title": "inboxd's admin API", "version": version("inboxd")},
        "servers": [{"url": prefix or "/"}],
        "security": [{"token": []}],
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Problem": _PROBLEM},
        },
        "paths": {**_of_rows("events"), **_of_rows("commands")},
    }


def _of_rows(table: str) -> Json:
    one = table.removesuffix("s")
    flags = [_flag("payload", "Include payload, headers and result.")]
    if table == "events":
        flags.append(
            _flag("raw", "Include the webhook that brought the event, as it was received.")
        )
    path = f"/api/{table}/{{id}}"
    show = {
        "operationId": f"show_{one}",
        "summary": f"The JSON of `inboxd {table} show ID --json`.",
        "parameters": [_ID, *flags],
        "responses": {"200": _json({"type": "object"}, "The row."), **_refusals(_REFUSALS)},
    }
    actions = [each for each in _DONE if (table, each) != ("events", "cancel")]
    listed = {
        "operationId": f"list_{table}",
        "summary": f"The JSON of `inboxd {table} list --json`: a page, the newest first.",
        "parameters": _filters(table),
        "responses": {"200": _json(_page(table), "A page."), **_refusals(_OF_LISTS)},
    }
    return {
        f"/api/{table}": {"get": listed},
        path: {"get": show},
        **{f"{path}/{each}": _action(one, each) for each in actions},
    }


def _action(one: str, action: str) -> Json:
    summary, properties = _DONE[action]
    done = {"type": "object", "required": list(properties), "properties": properties}
    reason = {"type": "string", "maxLength": 1_000, "description": "For the audit."}
    body = {"type": "object", "additionalProperties": False, "properties": {"reason": reason}}
    return {
        "post": {
            "operationId": f"{action}_{one}",
            "summary": summary,
            "parameters": [_ID],
            "requestBody": {"required": False, "content": {"application/json": {"schema": body}}},
            "responses": {
                "200": _json(done, "Done."),
                **_refusals({**_REFUSALS, **_OF_ACTIONS}),
            },
        }
    }


_ID: Json = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "A row number or a uuid.",
    "schema": {"type": "string"},
}


_TEXTS = {
    "type": "Rows of this type.",
    "tenant": "Rows of this tenant.",
    "since": "Rows from this time on: `2h` (ago), or ISO 8601, in UTC if it has no zone. `by` says "
    "which time of a row.",
    "until": "Rows before this time: `2h` (ago), or ISO 8601, in UTC if it has no zone.",
    "error": "Rows whose newest error contains this text.",
    "entity": "Rows of this entity, TYPE:ID, or of all entities of this TYPE.",
    "payload": "Rows whose payload has this field, FIELD=VALUE, or contains this JSON object.",
}


def _filters(table: str) -> list[Json]:
    lane, status = "topic" if table == "events" else "queue", {"enum": [*map(str, Status)]}
    found = [_parameter(name, text, {"type": "string"}) for name, text in _TEXTS.items()]
    found.append(_parameter(lane, f"Rows of this {lane}.", {"type": "string"}))
    found.append(
        _parameter(
            "by",
            "The time of a row that `since` and `until` refer to.",
            {"enum": [*get_args(When)]},
        )
    )
    many = {"status": "Rows of this status; may be given several times."}
    if table == "events":
        many["commands"] = "Events that enqueued a command of this status."
    found += [
        _parameter(name, text, {"type": "array", "items": status}) for name, text in many.items()
    ]
    rows = {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}
    found.append(_parameter("limit", "Rows per page.", rows))
    below = "Rows below this number: the `next` of the page before."
    return [*found, _parameter("below", below, {"type": "integer"})]


def _page(table: str) -> Json:
    number: Json = {"type": ["integer", "null"]}
    properties: Json = {
        table: {"type": "array", "items": {"type": "object"}},
        "next": {**number, "description": "null: all rows were looked at"},
        "looked_at": {"type": "integer"},
        "looked_back_to": {"type": ["string", "null"], "format": "date-time"},
    }
    return {"type": "object", "required": list(properties), "properties": properties}


def _parameter(name: str, description: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _flag(name: str, description: str) -> Json:
    return _parameter(name, description, {"type": "boolean", "default": False})


def _json(schema: Json, description: str) -> Json:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _refusals(told: dict[str, str]) -> Json:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": text, "content": content} for status, text in sorted(told.items())
    }
