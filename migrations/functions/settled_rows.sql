-- The rows in history of some commands, by their uuids or by their ids, with their senders; rows of the newest days first.
-- cancel_requested is false only for a skipped one. error: the newest; or that it has expired, or was skipped.
--
-- A query of all days at once locks the table and the indexes of each day until the transaction ends; with years of days, a
-- few such sessions use up the locks of the whole server. So the first query reads the newest days, which have most of the
-- commands. Then one query with a kept plan reads a short history, or several queries read a long one in stretches of days.
-- Each query is a subtransaction, which is rolled back to release its locks.
-- called by: await_end, command_result, settled_commands
-- roles: none
-- locks: nothing when it has ended
CREATE OR REPLACE FUNCTION {schema}.settled_rows(command_ids uuid[], row_ids bigint[] DEFAULT NULL)
    RETURNS TABLE (
        id bigint, command_id uuid, status text, cancel_requested boolean, result jsonb, error text, sender text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC'
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    newest    CONSTANT interval := '4 days';
    stretch   CONSTANT interval := '16 days';
    short     CONSTANT bigint := 128;  -- days
    low       timestamptz := current_date - newest + interval '1 day';
    high      timestamptz := current_date + interval '2 days';
    ahead     CONSTANT timestamptz := high;
    oldest    timestamptz;
    days      bigint;
    ids       bigint[];
    uuids     uuid[];
    statuses  text[];
    requested boolean[];
    results   text[];
    errors    text[];
    senders   text[];
BEGIN
    LOOP
        BEGIN
            IF days <= short AND row_ids IS NULL THEN
                SELECT array_agg(h.id), array_agg(h.command_id), array_agg(h.status), array_agg({end of h} <> 'skipped'),
                       array_agg(h.result::text),
                       array_agg(coalesce({reason of h}, h.errors -> -1 ->> 'error')), array_agg(h.sender)
                  INTO ids, uuids, statuses, requested, results, errors, senders
                  FROM {schema}.commands_history h
                 WHERE h.command_id = ANY (command_ids);
            ELSE
                EXECUTE $q$SELECT array_agg(h.id), array_agg(h.command_id), array_agg(h.status),
                        array_agg({end of h} <> 'skipped'), array_agg(h.result::text),
                        array_agg(coalesce({reason of h}, h.errors -> -1 ->> 'error')), array_agg(h.sender)
                        FROM {schema}.commands_history h WHERE h.finished_at >= $3 AND h.finished_at < $4 AND $q$
                        || CASE WHEN row_ids IS NULL THEN 'h.command_id = ANY ($1)' ELSE 'h.id = ANY ($2)' END
                   INTO ids, uuids, statuses, requested, results, errors, senders
                  USING command_ids, row_ids, low, high;
            END IF;
            RAISE EXCEPTION USING ERRCODE = 'IB009';
        EXCEPTION WHEN SQLSTATE 'IB009' THEN
            NULL;  -- the locks are gone, and the variables have what was found
        END;
        RETURN QUERY SELECT f.id, f.command_id, f.status, f.cancel_requested, f.result::jsonb, f.error, f.sender
                       FROM unnest(ids, uuids, statuses, requested, results, errors, senders)
                            AS f(id, command_id, status, cancel_requested, result, error, sender);
        command_ids := ARRAY(SELECT unnest(command_ids) EXCEPT SELECT unnest(uuids));
        row_ids := CASE WHEN row_ids IS NOT NULL THEN ARRAY(SELECT unnest(row_ids) EXCEPT SELECT unnest(ids)) END;
        -- The last query reads days in the future, for commands settled before the clock was set back; or all of a short
        -- history.
        EXIT WHEN coalesce(cardinality(row_ids), cardinality(command_ids)) = 0 OR low = ahead;
        IF days IS NULL THEN
            SELECT count(*), min(to_date(right(c.relname, 8), 'YYYYMMDD')) INTO days, oldest
              FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
             WHERE i.inhparent = '{schema}.commands_history'::regclass;
        END IF;
        IF low <= oldest OR oldest IS NULL OR days <= short AND row_ids IS NULL THEN
            low := ahead;
            high := 'infinity';
        ELSE
            high := low;
            low := low - stretch;
        END IF;
    END LOOP;
END
$$;
