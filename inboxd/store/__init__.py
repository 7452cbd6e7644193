"""The only package that imports asyncpg and holds SQL: one module per table family.

Each statement has a file of its own below `sql/`.

- Events: `events`, `lines` (ordering keys), `chunks` (batch topics), `intakes` (events that wait
  for a declared topic). Commands: `commands`, `limits` (queues with limits, ordering keys),
  `key_rates`, `suspects`. Both: `rows` (types of claimed rows), `settlements` (input of a
  settlement), `bodies` (large payloads), `dedup`, `unhandled`.
- Handlers: `handler_connection`, `handler_calls`, `prepared` (prepared statements of sessions);
  rows that handlers send: `batches`, `emitted`, `pages`.
- Workers: `workers`, `leases`, `wakeups`, `controls`, `breakers`; their declarations: `topics`,
  `names`, `schedules`, `labels` (titles of types and names of tenants).
- Relays: `relays` (leases of buckets).
- Messages of brokers: `stream_positions`, `message_readers`.
- Webhooks: `receipts`, `receivers` (inbound), `endpoints` (outbound).
- Numbers: `statistics` (executions), `samples` (backlog), `census`, `totals` and `batch_totals`
  (rows in tables), `daily_statement` (received against settled rows); `notices` and `markers` for
  charts.
- Growth: `partitions`, `retention`, `copying` (exports), `purging`.
- Operators read: `finding` (lists), `listing`, `queues`, `batch_listing`, `story`, `diagnosis`,
  `waiting` (causes of waiting), `payloads` (as text). They act: `operations`, `bulk_actions`
  (worked off by workers), `producing`, `imports`, `erase`; `rights` checks their privileges,
  `operator_sessions` opens their sessions. They try handlers: `rehearsal`.
- The server: `connections`, `session` (a connection with its statements), `pools`, `outage` (log
  messages about an unreachable database).
  Statements: `statements`, `columns`, `arrays`, `files`. The schema: `migrations`, `catalogue`,
  `uninstall`, `row_security` (row-level security policies).
- Plugins' tables: `plugin_folders`, `plugin_migrations`. Databases of tests: `testing`.
"""
