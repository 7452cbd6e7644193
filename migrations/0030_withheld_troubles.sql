-- Why a receiver's spool takes nothing, and why a source of messages is not read, is withheld from viewers: the text of an
-- exception may quote what came. That it is so they see. Besides, functions have changed.
-- oldest code: 3
--
-- Code of before writes both texts as it did, and reads them as before where its login is no viewer's.

ALTER TABLE {schema}.receivers
    ADD COLUMN broken boolean GENERATED ALWAYS AS (trouble IS NOT NULL) STORED;  -- whether its spool takes nothing any more

DO $do$
DECLARE
    role text;
BEGIN
    IF to_regrole('{schema}_viewer') IS NOT NULL THEN
        REVOKE SELECT (trouble) ON {schema}.receivers FROM {schema}_viewer;
        REVOKE SELECT (trouble) ON {schema}.message_readers FROM {schema}_viewer;
    END IF;
    FOREACH role IN ARRAY ARRAY['{schema}_viewer', '{schema}_operator'] LOOP
        CONTINUE WHEN to_regrole(role) IS NULL;
        EXECUTE format('GRANT SELECT (broken) ON {schema}.receivers TO %I', role);
    END LOOP;
END
$do$;
