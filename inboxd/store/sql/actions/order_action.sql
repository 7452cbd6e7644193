-- Insert a bulk action; its audit entry exists already.
-- parameters: $1 text kind, $2 text verb, $3 timestamptz run_at, $4 smallint priority, $5 text selection (JSON), $6 text[]
--             tenants, $7 text actor, $8 text reason, $9 bigint audit entry, $10 interval until it starts, $11 real
--             rate, $12 integer canary, $13 bigint first id, $14 bigint last id, $15 bigint rows counted, $16 boolean: the
--             count is exact, $17 uuid of the form (null: none)
-- returns: id; no row when this form has ordered one already
-- locks: the new row
INSERT INTO {schema}.actions
       (kind, verb, run_at, priority, selection, tenants, actor, reason, audit_id, request_id, status, starts_at, next_at, rate, canary,
        above, first_id, last_id, counted, whole)
VALUES ($1, $2, $3, $4, $5::jsonb, $6, $7, $8, $9, $17, 'scheduled', clock_timestamp() + $10::interval, clock_timestamp() + $10::interval, $11, $12,
        $13::bigint - 1, $13, $14, $15, $16)
ON CONFLICT (request_id) DO NOTHING
RETURNING id
