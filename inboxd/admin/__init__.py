"""HTTP of a process: metrics and health (`server`), the admin API and the screens (`site`)."""
