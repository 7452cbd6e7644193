-- How far this login's import of a file has come; a new import is at line 0. Deletes imports without progress for 90 days.
-- An import of an earlier release, which names no login, belongs to the first login that continues it.
-- called by: the daemon
-- roles: producer, worker
-- locks: the import's row, if it is new, or of before
CREATE OR REPLACE FUNCTION {schema}.open_import(kind text, name text)
    RETURNS TABLE (lines bigint, written bigint, broken bigint, finished_at timestamptz)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM {schema}.imports WHERE updated_at < now() - interval '90 days';
    UPDATE {schema}.imports i SET owner = session_user
     WHERE i.kind = open_import.kind AND i.name = open_import.name AND i.owner = ''
       AND NOT EXISTS (SELECT FROM {schema}.imports o
                        WHERE o.kind = i.kind AND o.name = i.name AND o.owner = session_user);
    INSERT INTO {schema}.imports (kind, name, owner) VALUES (open_import.kind, open_import.name, session_user)
        ON CONFLICT DO NOTHING;
    SELECT i.lines, i.written, i.broken, i.finished_at FROM {schema}.imports i
     WHERE i.kind = open_import.kind AND i.name = open_import.name AND i.owner = session_user;
$$;
