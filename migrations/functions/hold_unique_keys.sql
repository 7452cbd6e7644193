-- Take the locks of unique keys, until the transaction ends: a writer of a command with such a key holds its lock, so that
-- a search under the lock sees all unsettled commands. In one order, so that two pages with the same keys do not deadlock.
-- called by: resolve_unique_keys, unsent_keys, the daemon
-- roles: operator, worker
-- locks: the hashes of the keys
CREATE OR REPLACE FUNCTION {schema}.hold_unique_keys(types text[], keys text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('{schema}.unique'), hash)
       FROM (SELECT DISTINCT hashtext(g.type || ' ' || g.key) AS hash
               FROM unnest(types, keys) AS g(type, key) WHERE g.key IS NOT NULL ORDER BY 1) AS locks;
END
$$;
