"""What goes wrong with an OpenID provider, without a word of its own."""

from inboxd.errors import InboxdError

# What a provider may say of a request (RFC 6749, OpenID Connect Core): all else is not repeated.
_SAID = frozenset(
    {
        *("access_denied", "invalid_client", "invalid_grant", "invalid_request", "invalid_scope"),
        *("consent_required", "interaction_required", "login_required", "server_error"),
        *("temporarily_unavailable", "unauthorized_client", "unsupported_grant_type"),
        "unsupported_response_type",
    }
)


class ProviderUnreachable(InboxdError):
    """The provider gave no answer in time."""


class ProviderNotBelieved(InboxdError):
    """The provider's answer is not what it must be."""


def said_of(error: object) -> str:
    """An error's code as a log may have it."""
    return error if isinstance(error, str) and error in _SAID else "an error of another kind"
