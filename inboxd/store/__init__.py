"""Home of asyncpg and of SQL: one module per table family.

Each statement has a file of its own below `sql/`. Modules by subject:
- Events: `events`, `lines`, `chunks`, `intakes`. Commands: `commands`, `limits`, `key_rates`,
  `suspects`. Both: `rows`, `settlements`, `bodies`, `dedup`, `unhandled`.
- Handlers: `handler_connection`, `handler_calls`, `prepared`, `batches`, `emitted`, `pages`.
- Workers: `workers`, `leases`, `wakeups`, `controls`, `breakers`, `topics`, `names`, `schedules`,
  `labels`, `relays`. Messages: `stream_positions`, `message_readers`.
- Webhooks: `receipts`, `receivers` (inbound), `endpoints` (outbound).
- Numbers: `statistics`, `samples`, `census`, `totals`, `batch_totals`, `daily_statement`,
  `notices`, `markers`. Growth: `partitions`, `retention`, `copying`, `purging`.
- Operators: `finding`, `listing`, `queues`, `batch_listing`, `story`, `diagnosis`, `waiting`,
  `payloads`, `operations`, `bulk_actions`, `producing`, `erase`, `rights`,
  `operator_sessions`.
- The server: `connections`, `session`, `pools`, `outage`, `statements`, `columns`, `arrays`,
  `files`. The schema: `migrations`, `catalogue`, `row_security`.
- Plugins: `plugin_folders`, `plugin_migrations`. Databases of tests: `testing`.
"""
