-- Change a schedule that an operator added, in the transaction that holds it.
-- parameters: $1 bigint id, $2 text cron, $3 text zone, $4 text missed, $5 smallint schema version, $6 text lane, $7 smallint
--             priority, $8 text tenant, $9 text payload (JSON), $10 text time field, $11 text title, $12 text description,
--             $13 timestamptz next time
-- returns: nothing
-- locks: the row (held already)
UPDATE {schema}.schedules
   SET cron = $2, zone = $3, missed = $4, schema_version = $5, lane = $6, priority = $7, tenant = $8,
       payload = $9::text::jsonb, time_field = $10, title = $11, description = $12, next_at = $13,
       updated_at = clock_timestamp()
 WHERE id = $1
