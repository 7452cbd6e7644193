-- The rows at the front of these lines that may run now, in the order of each line; no rows of a line whose first row is
-- locked by another session.
--
-- A row that an operator has locked, or that this worker cannot run, ends its line. until: where one row of a line runs at
-- a time, rows that the worker `own` started at `until` or before do not hold their lines; then rows that run again are not
-- taken, since they must not stand behind other rows. NULL: every running row holds its line.
-- called by: claim_limited
-- roles: worker
-- locks: the rows, SKIP LOCKED
CREATE OR REPLACE FUNCTION {schema}.pick_lines(
    of_queue text, types text[], keys text[], share integer, at_once integer, blocking boolean, room integer,
    at timestamptz, own uuid, until timestamptz
) RETURNS bigint[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    front  record;
    locked bigint[];
    kept   bigint[] := '{}';
    ended  bigint;
BEGIN
    IF at_once = 1 THEN
        SELECT array_agg(r.id ORDER BY r.n, r.position, r.id) AS ids,
               array_agg(r.n ORDER BY r.n, r.position, r.id) AS lines,
               coalesce(bool_and(r.type = ANY (types)), true) AS mine,
               array_agg(r.type ORDER BY r.n, r.position, r.id) AS types
          INTO front
          FROM (SELECT k.n, r.* FROM unnest(keys) WITH ORDINALITY AS k(key, n)
                  LEFT JOIN LATERAL (
                      SELECT c.id, c.status, c.type, c.run_at, c.line_at, c.crashes FROM {schema}.commands c
                       WHERE c.queue = of_queue AND c.ordering_key = k.key AND c.line_at IS NOT NULL
                         AND c.status >= CASE WHEN blocking THEN 'failed' ELSE 'running' END
                         AND (until IS NULL OR c.worker_id IS DISTINCT FROM own OR c.started_at > until)
                       ORDER BY c.status, c.line_at, c.id LIMIT 1) holder ON true
                 CROSS JOIN LATERAL (
                      SELECT holder.id, holder.type, holder.line_at AS position
                       WHERE until IS NULL AND holder.status = 'waiting' AND holder.run_at <= at
                         AND holder.crashes = 0
                      UNION ALL
                      (SELECT c.id, c.type, c.run_at FROM {schema}.commands c
                        WHERE holder.id IS NULL AND c.queue = of_queue AND c.ordering_key = k.key
                          AND c.status = 'waiting' AND c.needs = 0 AND c.line_at IS NULL AND c.run_at <= at
                        ORDER BY c.run_at, c.id LIMIT share)) r
                 LIMIT room) AS r(n, id, type, position);
    ELSE
        SELECT array_agg(r.id ORDER BY r.n, r.position, r.id) AS ids,
               array_agg(r.n ORDER BY r.n, r.position, r.id) AS lines,
               coalesce(bool_and(r.type = ANY (types)), true) AS mine,
               array_agg(r.type ORDER BY r.n, r.position, r.id) AS types
          INTO front
          FROM (SELECT k.n, r.* FROM unnest(keys) WITH ORDINALITY AS k(key, n)
                 CROSS JOIN LATERAL (
                      SELECT count(*)::integer AS rows FROM (
                          SELECT FROM {schema}.commands c
                           WHERE c.queue = of_queue AND c.ordering_key = k.key AND c.line_at IS NOT NULL
                             AND c.status BETWEEN 'running' AND 'running' LIMIT at_once) AS few) running
                 CROSS JOIN LATERAL (
                      SELECT w.* FROM (
                          (SELECT c.id, c.type, c.line_at AS position FROM {schema}.commands c
                            WHERE c.queue = of_queue AND c.ordering_key = k.key AND c.line_at IS NOT NULL
                              AND c.status = 'waiting' AND c.run_at <= at AND c.crashes = 0
                            ORDER BY c.line_at, c.id LIMIT share)
                          UNION ALL
                          (SELECT c.id, c.type, c.run_at FROM {schema}.commands c
                            WHERE c.queue = of_queue AND c.ordering_key = k.key
                              AND c.status = 'waiting' AND c.needs = 0 AND c.line_at IS NULL AND c.run_at <= at
                            ORDER BY c.run_at, c.id LIMIT share)) AS w
                       LIMIT CASE WHEN running.rows = 0 THEN share ELSE least(share, at_once - running.rows) END) r
                 LIMIT room) AS r(n, id, type, position);
    END IF;
    IF front.ids IS NULL THEN
        RETURN '{}';
    END IF;
    locked := ARRAY(SELECT c.id FROM {schema}.commands c
                     WHERE c.id = ANY (front.ids) AND c.status = 'waiting' FOR UPDATE SKIP LOCKED);
    IF front.mine AND cardinality(locked) = cardinality(front.ids) THEN
        RETURN front.ids;
    END IF;
    FOR i IN 1..cardinality(front.ids) LOOP
        CONTINUE WHEN front.lines[i] = ended;
        IF front.types[i] = ANY (types) AND front.ids[i] = ANY (locked) THEN
            kept := kept || front.ids[i];
        ELSE
            ended := front.lines[i];
        END IF;
    END LOOP;
    RETURN kept;
END
$$;
