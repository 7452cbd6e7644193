-- Record that an import has come from one line to another, in the transaction that writes those lines. False if it is
-- not at the first one any more: another process imports the same file, and the caller rolls back. Only for the login's own.
-- called by: the daemon
-- roles: producer, worker
-- locks: the import's row
CREATE OR REPLACE FUNCTION {schema}.advance_import(
    kind text, name text, from_line bigint, to_line bigint, new_rows bigint, left_out bigint, finished boolean
) RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH advanced AS (
        UPDATE {schema}.imports i
           SET lines = to_line, written = i.written + new_rows, broken = i.broken + left_out,
               updated_at = clock_timestamp(), finished_at = CASE WHEN finished THEN clock_timestamp() END
         WHERE i.kind = advance_import.kind AND i.name = advance_import.name AND i.owner = session_user
           AND i.lines = from_line
        RETURNING 1
    )
    SELECT EXISTS (SELECT FROM advanced)
$$;
