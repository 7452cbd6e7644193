-- The suspects of a queue that are due and may run now, of one group; of any group if of_group is NULL.
-- called by: claim_limited
-- roles: worker
-- locks: the rows, SKIP LOCKED
CREATE OR REPLACE FUNCTION {schema}.pick_suspects(
    of_queue text, types text[], at_once integer, blocking boolean, of_group uuid, most integer
) RETURNS bigint[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- (The CASEs imply the predicate of no other index, so the planner has only one way to these rows.)
    RETURN ARRAY(
        SELECT c.id FROM {schema}.commands c
         WHERE c.suspect_group BETWEEN coalesce(of_group, '00000000-0000-0000-0000-000000000000')
                                   AND coalesce(of_group, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
           AND CASE WHEN c.suspect_group IS NOT NULL
                    THEN c.queue = of_queue AND c.type = ANY (types) AND c.run_at <= clock_timestamp()
                         AND CASE c.status
                             WHEN 'pending' THEN true
                             WHEN 'waiting' THEN c.line_at IS NOT NULL AND (
                                 SELECT count(*) FROM (
                                     SELECT FROM {schema}.commands e
                                      WHERE e.queue = of_queue AND e.ordering_key = c.ordering_key
                                        AND e.line_at IS NOT NULL
                                        AND e.status >= CASE WHEN blocking AND at_once = 1 THEN 'failed'
                                                             ELSE 'running' END
                                        AND (e.status, e.line_at, e.id) < ('waiting', c.line_at, c.id)
                                      LIMIT at_once) AS ahead) < at_once
                             ELSE false END END
         ORDER BY c.run_at, c.id LIMIT most
           FOR UPDATE SKIP LOCKED);
END
$$;
