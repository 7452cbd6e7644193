-- Bulk actions pass rows over that somebody has in hand, and keep their lines of the audit (purge_audit); viewers see
-- neither what an action looks for nor its note.
-- oldest code: 3
--
-- Screens of before that use the viewers' role show no bulk actions any more: they ask for both columns.
-- Code of before forgets what was passed over, so it should not work actions off beside newer code for long; it does none
-- of the rows twice.

-- Rows that matched while somebody had them or their bucket in hand: they are tried again, before the action ends.
ALTER TABLE {schema}.actions ADD COLUMN passed_ids bigint[] NOT NULL DEFAULT '{}';

DO $do$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['{schema}_viewer', '{schema}_operator'] LOOP
        CONTINUE WHEN to_regrole(role) IS NULL;
        EXECUTE format('GRANT SELECT (passed_ids) ON {schema}.actions TO %I', role);
    END LOOP;
    -- A selection may quote an error, and a note what the database said of a row.
    IF to_regrole('{schema}_viewer') IS NOT NULL THEN
        REVOKE SELECT (selection, note) ON {schema}.actions FROM {schema}_viewer;
    END IF;
END
$do$;
