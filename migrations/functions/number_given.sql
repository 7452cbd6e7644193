-- The number that a sequence of inboxd's gave last; of one that was set and gave none since, the number before its next.
-- Null: there is no such sequence.
--
-- What the server says of one that was set is that it gave nothing yet; the sequence itself, only its owner reads.
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
