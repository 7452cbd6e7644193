-- The names of these sources whose events must wait: a receipt asks for it, an operator paused the source, or other
-- receipts of it still wait. NULL if no source waits.
-- called by: receive
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.waiting_sources(sources text[], holds boolean[]) RETURNS text[]
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    RETURN (SELECT array_agg(s.name ORDER BY s.name COLLATE "C")
              FROM (SELECT u.name, bool_or(u.hold) AS hold FROM unnest(sources, holds) AS u(name, hold) GROUP BY 1) AS s
             WHERE s.hold
                OR EXISTS (SELECT FROM {schema}.controls c WHERE c.kind = 'source' AND c.name = s.name OFFSET 0)
                OR EXISTS (SELECT FROM {schema}.held_sources h WHERE h.source = s.name OFFSET 0));
END
$$;
