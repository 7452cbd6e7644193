-- The status, result and newest error of a command, for the login that sent it and knows its uuid. Other logins get
-- no row (is_of_login).
--
-- Of several rows with one command_id, the unsettled one, or else the newest. For a dead letter that was replayed as a new
-- row, that row counts. No row: no such command has committed, or its history is gone. An unsettled command costs one index
-- lookup; only a settled one is searched in the days of history.
-- called by: producers
-- roles: producer, worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.command_result(command_id uuid)
    RETURNS TABLE (status text, result jsonb, error text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    wanted  uuid := command_result.command_id;
    seen    record;
    settled boolean;
    mine    boolean;  -- the one that was asked for; then what it was replayed as is it, too
    heir    bigint;
BEGIN
    LOOP
        settled := false;
        SELECT c.id, c.status, c.result, c.errors -> -1 ->> 'error' AS error, c.sender INTO seen
          FROM {schema}.commands c WHERE c.command_id = wanted;
        IF NOT FOUND THEN
            SELECT s.id, s.status, s.result, s.error, s.sender INTO seen
              FROM {schema}.settled_rows(ARRAY[wanted]) s ORDER BY s.id DESC LIMIT 1;
            IF NOT FOUND THEN
                RETURN;
            END IF;
            settled := true;
        END IF;
        mine := coalesce(mine, {schema}.is_of_login(seen.sender));
        IF NOT mine THEN
            RETURN;
        END IF;
        EXIT WHEN NOT settled;
        EXIT WHEN seen.status <> 'failed';
        SELECT r.new_id INTO heir
          FROM (SELECT new_id, at FROM {schema}.replays
                 WHERE old_id = seen.id AND kind = 'command' AND new_id <> old_id OFFSET 0) r
         ORDER BY r.at DESC LIMIT 1;
        EXIT WHEN NOT FOUND;
        wanted := coalesce((SELECT c.command_id FROM {schema}.commands c WHERE c.id = heir),
                           (SELECT s.command_id FROM {schema}.settled_rows(NULL, ARRAY[heir]) s LIMIT 1));
        EXIT WHEN wanted IS NULL;
    END LOOP;
    RETURN QUERY SELECT seen.status, seen.result, seen.error;
END
$$;
