"""The only home of asyncpg and of SQL: a module for each table family, one statement a file.

- Events: `events`, `lines` (in the order of keys), `chunks` (of batch topics), `intakes` (those
  that wait for a declaration). Commands: `commands`, `limits` (queues with limits, keys),
  `key_rates`, `suspects`. Both: `rows` (what a claim returns), `settlements` (what a row's end is
  written from), `bodies` (large payloads), `dedup`, `unhandled`.
- What handlers do: `handler_connection`, `handler_calls`, `prepared` (what sessions keep); what
  they send: `batches`, `emitted`, `pages`.
- Workers: `workers`, `leases`, `wakeups`, `controls`, `breakers`; what they declare: `topics`,
  `names`, `schedules`, `labels` (titles; and what tenants are called).
- Relays: `relays` (leases of buckets).
- Messages of brokers: `stream_positions`, `message_readers` (who reads them).
- Webhooks: `receipts`, `receivers` (who receives), `endpoints` (who gets ours).
- Numbers: `statistics` (what was done), `samples` (what waits), `census`, `totals` (what there is),
  `daily_statement` (whether it adds up); `notices` of them; `markers` beside their charts.
- Growth: `partitions`, `retention`, `copying` (exports), `purging`.
- Operators look: `finding` (lists), `listing`, `queues`, `batch_listing`, `story`, `diagnosis`,
  `waiting` (what holds a row), `payloads` (as text); and act: `operations`, `bulk_actions` (on all
  that match, by workers), `producing`, `imports`, `erase`, as far as `rights` go, by a `session`;
  or try: `rehearsal`.
- The server: `connections`, `pools`, `outage` (how its absence is told); the statements:
  `statements`, `columns`, `arrays`, `files`; the schema: `migrations`, `catalogue`, `uninstall`,
  `row_security` (whom rows are hidden from);
  plugins' tables: `plugin_folders`, `plugin_migrations`. Databases of tests: `testing`.
"""
