-- Declare the schedules of a worker that joins; sorted, so that two workers do not deadlock.
-- A schedule of that name that an operator added counts as declared from then on.
-- A schedule whose cron and zone are unchanged keeps its next time, so that runs that were missed meanwhile are due.
-- parameters: arrays, one entry a schedule: $1 text[] names, $2 text[] sources, $3 text[] crons, $4 text[]
--             zones, $5 text[] missed, $6 text[] kinds, $7 text[] types, $8 smallint[] schema versions,
--             $9 text[] lanes (null: the declared one), $10 smallint[] priorities, $11 text[] tenants,
--             $12 text[] payloads (JSON), $13 text[] time fields, $14 timestamptz[] next times,
--             $15 text[] titles, $16 text[] descriptions
-- returns: nothing
-- locks: the rows that change
INSERT INTO {schema}.schedules AS old
       (name, source, cron, zone, missed, kind, type, schema_version, lane, priority, tenant, payload,
        time_field, next_at, title, description)
SELECT name, source, cron, zone, missed, kind, type, schema_version, lane, priority, tenant,
       payload::jsonb, time_field, next_at, title, description
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
              $8::smallint[], $9::text[], $10::smallint[], $11::text[], $12::text[], $13::text[],
              $14::timestamptz[], $15::text[], $16::text[])
       AS t(name, source, cron, zone, missed, kind, type, schema_version, lane, priority, tenant,
            payload, time_field, next_at, title, description)
 ORDER BY name
ON CONFLICT (name) DO UPDATE
   SET source = excluded.source, cron = excluded.cron, zone = excluded.zone, missed = excluded.missed,
       kind = excluded.kind, type = excluded.type, schema_version = excluded.schema_version,
       lane = excluded.lane, priority = excluded.priority, tenant = excluded.tenant,
       payload = excluded.payload, time_field = excluded.time_field,
       next_at = CASE WHEN (old.cron, old.zone) = (excluded.cron, excluded.zone) THEN old.next_at
                      ELSE excluded.next_at END,
       title = excluded.title, description = excluded.description, undeclared_at = NULL,
       added_at = NULL, updated_at = clock_timestamp()
 WHERE (old.source, old.cron, old.zone, old.missed, old.kind, old.type, old.schema_version, old.lane,
        old.priority, old.tenant, old.payload, old.time_field, old.title, old.description, old.undeclared_at,
        old.added_at)
       IS DISTINCT FROM
       (excluded.source, excluded.cron, excluded.zone, excluded.missed, excluded.kind, excluded.type,
        excluded.schema_version, excluded.lane, excluded.priority, excluded.tenant, excluded.payload,
        excluded.time_field, excluded.title, excluded.description, NULL::timestamptz,
        NULL::timestamptz)
