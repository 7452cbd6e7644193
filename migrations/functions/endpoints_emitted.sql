-- Record for which emitted types endpoints want webhooks, when an endpoint has changed.
--
-- A concurrent change of another endpoint waits, since each would see the types that the other removes. All rows are
-- computed again, by hashing: thousands of endpoints take milliseconds.
-- called by: trigger endpoints_emitted
-- roles: none
-- locks: emitted_types, against other writers
CREATE OR REPLACE FUNCTION {schema}.endpoints_emitted() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_hashjoin = on SET jit = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM {schema}.endpoints e WHERE e.events)
       AND NOT EXISTS (SELECT FROM {schema}.emitted_types) THEN
        RETURN NULL;
    END IF;
    LOCK TABLE {schema}.emitted_types IN SHARE ROW EXCLUSIVE MODE;
    WITH asked AS MATERIALIZED (
        SELECT one.type, coalesce(e.tenant, '') AS tenant, bool_or(e.ordered) AS ordered
          FROM {schema}.endpoints e CROSS JOIN LATERAL unnest(e.types) AS one(type)
         WHERE e.events AND e.enabled
         GROUP BY 1, 2
    ), gone AS (
        DELETE FROM {schema}.emitted_types t
         WHERE NOT EXISTS (SELECT FROM asked a WHERE a.type = t.type AND a.tenant = t.tenant)
    )
    INSERT INTO {schema}.emitted_types AS t (type, tenant, ordered)
    SELECT a.type, a.tenant, a.ordered FROM asked a
    ON CONFLICT (type, tenant) DO UPDATE SET ordered = excluded.ordered WHERE t.ordered <> excluded.ordered;
    RETURN NULL;
END
$$;
