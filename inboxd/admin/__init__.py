"""HTTP of a process: metrics and health, the admin API, the screens.

`http` has the pages of metrics and health, `server` serves them. `site` joins the admin API and
the screens. `api` is the admin API: `tokens` authenticates its callers, `throttle` limits their
requests, `answers` and `openapi` define its responses.
"""
