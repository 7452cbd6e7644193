-- The subjects among these that were erased since then, by the audit, with the time of the newest erasure.
--
-- A receiver may ask for subjects that it has in its spool, and can read nothing else of the audit.
-- The expression on the time keeps its index from being used: subjects are few, and found by audit_erased.
-- called by: the daemon
-- roles: receiver, worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.erased(subjects text[], since timestamptz)
    RETURNS TABLE (subject text, erased_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT a.target, max(a.at) FROM {schema}.audit a
     WHERE a.action = 'erase' AND a.at + interval '0' > since AND a.target = ANY (subjects) GROUP BY a.target
$$;
