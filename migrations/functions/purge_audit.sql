-- Delete old lines of the audit; the worker's role has no other right to delete them. Keeps lines younger than 30 days, and
-- the line of a bulk action that has not ended, since its count still grows.
-- called by: the daemon
-- roles: worker
-- locks: those lines
CREATE OR REPLACE FUNCTION {schema}.purge_audit(age interval, most integer)
    RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    removed bigint;
BEGIN
    DELETE FROM {schema}.audit WHERE id = ANY (ARRAY(
        SELECT id FROM {schema}.audit
         WHERE at < now() - greatest(age, interval '30 days')
           AND id <> ALL (ARRAY(SELECT audit_id FROM {schema}.actions
                                 WHERE status IN ('scheduled', 'canary', 'running', 'paused')))
         ORDER BY at LIMIT most));
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END
$$;
