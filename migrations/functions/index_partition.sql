-- Make one index of a partition of history of a finished day, by which lists find its rows of one type, tenant or entity.
-- false: it exists, or the partition does not.
--
-- A finished day gets no more rows, so the index costs no settlement anything; other writers (retention of types, erasure,
-- bodies that are copied forward) wait while the index is made. An hour after midnight: a transaction that settled a row
-- before midnight locks the partition until it ends, and this call gives up at once.
-- The id is written as an expression, so that a search by id is never planned with this index (ADR 16).
-- called by: the daemon
-- roles: worker
-- locks: the partition, against writers, while the index is made; waits at most 50 ms for it
CREATE OR REPLACE FUNCTION {schema}.index_partition(wanted text, what text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS $$
DECLARE
    columns text := CASE what WHEN 'type' THEN 'type, (id + 0)' WHEN 'tenant' THEN 'tenant, (id + 0)'
                              WHEN 'entity' THEN 'entity_type, entity_id, (id + 0)' END;
BEGIN
    IF columns IS NULL THEN
        RAISE EXCEPTION '% is not a valid index of a partition: use type, tenant or entity', what
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF to_regclass(format('{schema}.%I', wanted || '_' || what)) IS NOT NULL
       OR NOT EXISTS (SELECT FROM {schema}.partitions
                       WHERE part = wanted AND parent <> 'bodies' AND NOT pending
                         AND high <= now() - interval '1 hour') THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE INDEX %I ON {schema}.%I (%s)', wanted || '_' || what, wanted, columns);
    RETURN true;
END
$$;
