-- How a command or a batch ended: NULL until it has ended, and no row if it does not exist or is not this login's
-- (is_of_login).
--
-- Marks it as awaited, which keeps it from being settled until this transaction ends. A dead letter that was replayed as a
-- new row counts as that row: needs is then its uuid.
-- called by: send_after
-- roles: none
-- locks: the row that is awaited
CREATE OR REPLACE FUNCTION {schema}.await_end(INOUT needs uuid, OUT known boolean, OUT outcome text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    c         record;
    heir      bigint;
    successor uuid;
    mine      boolean := false;  -- then what it was replayed as is it, too
BEGIN
    known := true;
    LOOP
        UPDATE {schema}.commands SET awaited = true
         WHERE command_id = await_end.needs AND (mine OR {schema}.is_of_login(sender)) RETURNING status INTO c;
        IF FOUND THEN
            outcome := CASE c.status WHEN 'failed' THEN 'failed' END;
            RETURN;
        END IF;
        UPDATE {schema}.batches SET awaited = true
         WHERE batch_id = await_end.needs AND (mine OR {schema}.is_of_login(sender))
        RETURNING status, cancelled, ending INTO c;
        IF FOUND THEN
            outcome := CASE WHEN c.status IN ('succeeded', 'failed') THEN c.status
                            WHEN c.status = 'cancelled' AND c.cancelled = 0 AND c.ending IS DISTINCT FROM 'cancelled'
                            THEN 'skipped' WHEN c.status = 'cancelled' THEN 'cancelled' END;
            RETURN;
        END IF;
        -- A new statement, whose snapshot shows rows that were settled while the first one waited.
        SELECT s.id, s.status, s.cancel_requested INTO c FROM {schema}.settled_rows(ARRAY[await_end.needs]) s
         WHERE mine OR {schema}.is_of_login(s.sender) ORDER BY s.id DESC LIMIT 1;
        known := FOUND;
        mine := true;
        EXIT WHEN c.status IS DISTINCT FROM 'failed';
        SELECT r.new_id INTO heir
          FROM {schema}.replays r WHERE r.kind = 'command' AND r.old_id = c.id AND r.new_id <> c.id LIMIT 1;
        EXIT WHEN NOT FOUND;
        successor := coalesce((SELECT n.command_id FROM {schema}.commands n WHERE n.id = heir),
                              (SELECT s.command_id FROM {schema}.settled_rows(NULL, ARRAY[heir]) s LIMIT 1));
        EXIT WHEN successor IS NULL;
        needs := successor;
    END LOOP;
    outcome := CASE WHEN c.status = 'cancelled' AND NOT c.cancel_requested THEN 'skipped'
                    WHEN c.status IN ('dismissed', 'failed') THEN 'cancelled' ELSE c.status END;
END
$$;
