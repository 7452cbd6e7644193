-- Record in batch_progress that a member became or stopped being a dead letter, and release rows that waited for that.
-- called by: trigger commands_failed
-- roles: none
-- locks: the new row; what release locks
CREATE OR REPLACE FUNCTION {schema}.commands_failed() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.batch_id IS NOT NULL THEN
        INSERT INTO {schema}.batch_progress (batch_id, failed)
        VALUES (NEW.batch_id, CASE WHEN NEW.status = 'failed' THEN 1 ELSE -1 END);
    END IF;
    IF NEW.awaited AND NEW.status = 'failed' THEN
        PERFORM {schema}.release(ARRAY[NEW.command_id], ARRAY['failed']);
    END IF;
    RETURN NULL;
END
$$;
