"""What a process shows and does over HTTP: metrics and health, and the admin API.

`http` has the pages of metrics and health, `server` serves them. `api` is the admin API: by whose
token it is asked `tokens`, how often `budget`, what it answers `answers` and `openapi`.
"""
