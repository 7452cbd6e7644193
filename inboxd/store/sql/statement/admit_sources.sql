-- Count sources separately, as long as there is room. Two leaders at once may admit a few too many.
-- parameters: $1 text[] sources, $2 integer how many there may be
-- returns: nothing
-- locks: the new rows
WITH room AS MATERIALIZED (
    SELECT greatest(0, $2 - count(*)) AS places FROM {schema}.statement_sources
), coming AS MATERIALIZED (
    SELECT name, row_number() OVER (ORDER BY name) AS place
      FROM unnest($1::text[]) AS name
     WHERE NOT EXISTS (SELECT FROM {schema}.statement_sources s WHERE s.source = name OFFSET 0)
)
INSERT INTO {schema}.statement_sources (source)
SELECT coming.name FROM coming, room WHERE coming.place <= room.places ORDER BY coming.name
ON CONFLICT DO NOTHING
