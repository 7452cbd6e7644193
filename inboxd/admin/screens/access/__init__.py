"""Access to the screens: from a request to its visitor, or to a refusal.

`gate` has the ways, in order: a bearer token, a proxy, a sign-in with a password or at an OpenID
provider, or nothing on loopback. A browser keeps `sessions` as `cookies`.
"""

from inboxd.admin.screens.access.contract import Doorkeeper, Everybody

__all__ = ["Doorkeeper", "Everybody"]
