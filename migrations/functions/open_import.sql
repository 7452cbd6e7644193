-- How far the import of a file has come; a new one is at line 0. Those that nobody went on with for 90 days are forgotten.
-- called by: the daemon
-- roles: producer, worker
-- locks: the import's row, if it is new
CREATE OR REPLACE FUNCTION {schema}.open_import(kind text, name text)
    RETURNS TABLE (lines bigint, written bigint, broken bigint, finished_at timestamptz)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM {schema}.imports WHERE updated_at < now() - interval '90 days';
    INSERT INTO {schema}.imports (kind, name) VALUES (open_import.kind, open_import.name) ON CONFLICT DO NOTHING;
    SELECT i.lines, i.written, i.broken, i.finished_at
      FROM {schema}.imports i WHERE i.kind = open_import.kind AND i.name = open_import.name;
$$;
