-- One order in which rows are locked (ADR 41): a batch that a command's end concerns is told by a line of
-- batch_progress, and its row is locked by its fold alone.
-- oldest code: 3
-- functions: first; new texts: end_members, fold_batch, resolve_unique_keys
--
-- Code of before folds and reads lines as it did: what the new columns say is added up by fold_batch.

ALTER TABLE {schema}.batch_progress
    ADD COLUMN met    integer NOT NULL DEFAULT 0,  -- prerequisites of the batch that have come
    ADD COLUMN ending text CHECK (ending IN ('cancelled', 'skipped'));  -- one of them can never come any more

-- A fold asks and ends members itself now, and keys are resolved for a page at once.
DROP FUNCTION IF EXISTS {schema}.ask_members(bigint);
DROP FUNCTION IF EXISTS {schema}.cancel_unique(text, text);
DELETE FROM {schema}.schema_functions WHERE name IN ('ask_members', 'cancel_unique');

DO $do$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['{schema}_viewer', '{schema}_operator'] LOOP
        CONTINUE WHEN to_regrole(role) IS NULL;
        EXECUTE format('GRANT SELECT (met, ending) ON {schema}.batch_progress TO %I', role);
    END LOOP;
    -- In a new schema the functions were made before these roles were.
    IF to_regrole('{schema}_operator') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION {schema}.hold_ending, {schema}.hold_unique_keys, {schema}.number_given
           TO {schema}_operator;
    END IF;
    IF to_regrole('{schema}_viewer') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION {schema}.number_given TO {schema}_viewer;
    END IF;
    IF to_regrole('{schema}_receiver') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION {schema}.make_receipt_days TO {schema}_receiver;
    END IF;
END
$do$;
