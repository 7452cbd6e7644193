-- The last number that a sequence of inboxd gave; if it was set and has given no number since, the number before its next
-- one. NULL if the sequence does not exist.
--
-- The server's views say of a sequence that was only set that it gave nothing yet; only its owner may read the sequence
-- itself.
-- called by: the daemon
-- roles: operator, viewer, worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.number_given(sequence text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given bigint;
BEGIN
    IF EXISTS (SELECT FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relname = sequence AND relkind = 'S') THEN
        EXECUTE format('SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM {schema}.%I', sequence) INTO given;
    END IF;
    RETURN given;
END
$$;
