-- Deallocate statements that a handler's own SQL has prepared, which outlive its transaction; not the driver's.
-- parameters: none
-- returns: nothing
-- locks: nothing
DO $tidy$
DECLARE
    own text;
BEGIN
    FOR own IN SELECT name FROM pg_catalog.pg_prepared_statements WHERE from_sql LOOP
        EXECUTE pg_catalog.format('DEALLOCATE %I', own);
    END LOOP;
END
$tidy$
