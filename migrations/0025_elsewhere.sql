-- What a schema needs that is published, restored from a dump, or renamed.
-- oldest code: 3
--
-- Code of before works with it, and looks for none of it.

-- --------------------------------------------------------------------------------- published
-- Where all tables are published (tools that copy changes do so by themselves), the server refuses each UPDATE and
-- DELETE of a table without a key by which a replica would find the row. What has no primary key names the whole row;
-- make_partitions does the same for new days.

ALTER TABLE {schema}.batch_progress REPLICA IDENTITY FULL;
ALTER TABLE {schema}.replays REPLICA IDENTITY FULL;
ALTER TABLE {schema}.census_types REPLICA IDENTITY FULL;
ALTER TABLE {schema}.census_tenants REPLICA IDENTITY FULL;

DO $do$
DECLARE
    day regclass;
BEGIN
    -- Also days that retention has detached: it may attach them again.
    FOR day IN
        SELECT oid FROM pg_class
         WHERE relnamespace = '{schema}'::regnamespace AND relkind = 'r'
           AND relname ~ '^(events|commands)_history_\d{8}$'
         ORDER BY relname
    LOOP
        EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', day);
    END LOOP;
END
$do$;

-- ---------------------------------------------------------------------------------- restored
-- A BETWEEN before another AND is printed with more brackets than what is made of the print, so a restored schema looked
-- changed.
ALTER TABLE {schema}.endpoints
    DROP CONSTRAINT endpoints_types_check,
    ADD CONSTRAINT endpoints_types_check CHECK (cardinality(types) >= 1 AND cardinality(types) <= 100
                                                AND array_position(types, NULL) IS NULL);

-- ----------------------------------------------------------------------------------- renamed
-- The schema itself, not its name: a view keeps its text when the schema gets another one. As in 0001 and 0006 besides.

CREATE OR REPLACE VIEW {schema}.partitions AS
SELECT parent.relname::text AS parent, part.relname::text AS part, part.oid AS oid,
       substring(bound.text FROM $r$FROM \('([^']+)'\)$r$)::timestamptz AS low,
       substring(bound.text FROM $r$TO \('([^']+)'\)$r$)::timestamptz AS high,
       i.inhdetachpending AS pending
  FROM pg_class parent
  JOIN pg_inherits i ON i.inhparent = parent.oid
  JOIN pg_class part ON part.oid = i.inhrelid
 CROSS JOIN LATERAL (SELECT pg_get_expr(part.relpartbound, part.oid) AS text OFFSET 0) bound
 WHERE parent.relnamespace = '{schema}'::regnamespace AND parent.relkind = 'p'
   AND parent.relname IN ('bodies', 'events_history', 'commands_history')
   AND bound.text IS NOT NULL;

CREATE OR REPLACE VIEW {schema}.every_partition AS
SELECT parent.relname::text AS parent, part.relname::text AS part, part.oid AS oid,
       substring(bound.text FROM $r$FROM \('([^']+)'\)$r$)::timestamptz AS low,
       substring(bound.text FROM $r$TO \('([^']+)'\)$r$)::timestamptz AS high,
       i.inhdetachpending AS pending
  FROM pg_class parent
  JOIN pg_inherits i ON i.inhparent = parent.oid
  JOIN pg_class part ON part.oid = i.inhrelid
 CROSS JOIN LATERAL (SELECT pg_get_expr(part.relpartbound, part.oid) AS text OFFSET 0) bound
 WHERE parent.relnamespace = '{schema}'::regnamespace AND parent.relkind = 'p'
   AND parent.relname IN ('bodies', 'events_history', 'commands_history', 'receipts')
   AND bound.text IS NOT NULL;
