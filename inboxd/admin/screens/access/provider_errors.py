"""Failures of an OpenID provider, without texts that it sent."""

from inboxd.errors import InboxdError

# Error codes of RFC 6749 and OpenID Connect Core; a log line repeats no others.
_SAID = frozenset(
    {
        *("access_denied", "invalid_client", "invalid_grant", "invalid_request", "invalid_scope"),
        *("consent_required", "interaction_required", "login_required", "server_error"),
        *("temporarily_unavailable", "unauthorized_client", "unsupported_grant_type"),
        "unsupported_response_type",
    }
)


class ProviderUnreachable(InboxdError):
    """The provider gave no answer, or not in time."""


class ProviderNotBelieved(InboxdError):
    """The provider's answer is not valid."""


def said_of(error: object) -> str:
    return error if isinstance(error, str) and error in _SAID else "an error of another kind"
