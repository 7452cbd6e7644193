-- Add a schedule for an operator.
-- parameters: $1 text name, $2 text who adds it, $3 text cron, $4 text zone, $5 text missed, $6 text kind, $7 text type,
--             $8 smallint schema version, $9 text lane (null: the declared one), $10 smallint priority, $11 text tenant,
--             $12 text payload (JSON), $13 text time field, $14 text title, $15 text description, $16 timestamptz next time
-- returns: id; no row if the name is taken
-- locks: the new row
INSERT INTO {schema}.schedules
       (name, source, cron, zone, missed, kind, type, schema_version, lane, priority, tenant, payload, time_field,
        title, description, next_at, added_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::text::jsonb, $13, $14, $15, $16, clock_timestamp())
ON CONFLICT (name) DO NOTHING
RETURNING id
