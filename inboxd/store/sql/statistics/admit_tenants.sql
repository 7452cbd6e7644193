-- Count tenants by name, as long as there is room; tenants that are counted already are marked as seen today. Two
-- workers at once may admit a few too many.
-- parameters: $1 text[] tenants, $2 integer how many there may be
-- returns: nothing
-- locks: the rows that are new, or were not marked today
WITH room AS MATERIALIZED (
    SELECT greatest(0, $2 - count(*)) AS places FROM {schema}.stats_tenants
), coming AS MATERIALIZED (
    SELECT name, known.tenant IS NOT NULL AS known,
           count(*) FILTER (WHERE known.tenant IS NULL) OVER (ORDER BY name) AS place
      FROM unnest($1::text[]) AS name
      LEFT JOIN {schema}.stats_tenants known ON known.tenant = name
)
INSERT INTO {schema}.stats_tenants AS old (tenant)
SELECT coming.name FROM coming, room WHERE coming.known OR coming.place <= room.places ORDER BY coming.name
ON CONFLICT (tenant) DO UPDATE SET seen_at = excluded.seen_at WHERE old.seen_at < excluded.seen_at - interval '1 day'
