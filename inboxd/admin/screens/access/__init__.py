"""Who visits: from a request to a visitor, or to the answer that lets nobody in.

`contract` says what the screens ask of it. `gate` is the way in of a process of inboxd's own: a
bearer token, a proxy that knows who visits (`proxy`), a sign-in (`sign_in`), or nothing on
loopback; by which names it may be called says `hosts`. People sign in with a password (`users`,
`throttle`) or at an OpenID provider (`oidc`, by `flows` and `provider`); `sessions` and `cookies`
are what a browser keeps, in `signed_texts`.
"""

from inboxd.admin.screens.access.contract import Doorkeeper, Everybody

__all__ = ["Doorkeeper", "Everybody"]
