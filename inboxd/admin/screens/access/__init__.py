"""Access to the screens: from a request to its visitor, or to a refusal.

`contract` is the interface to the screens. `gate` is the access of inboxd's own processes: a bearer
token, a proxy that names the visitor (`proxy`), a sign-in (`sign_in`), or nothing on loopback;
`hosts` checks the host name of requests. People sign in with a password (`users`, `throttle`) or at
an OpenID provider (`oidc`, by `flows` and `provider`). A browser keeps `sessions` as `cookies`,
which are `signed_texts`.
"""

from inboxd.admin.screens.access.contract import Doorkeeper, Everybody

__all__ = ["Doorkeeper", "Everybody"]
