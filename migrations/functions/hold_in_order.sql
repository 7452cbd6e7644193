-- Lock commands, and all rows that release will change once «ended» have ended so, in the order that all code keeps
-- (ADR 41): rows without dependencies, then those with some; each by ascending id.
--
-- In one statement, and before anything is changed: rows that are found level by level would be locked in another order.
-- Only edges that can never be met any more are followed further, as in release.
-- called by: hold_ending, release
-- roles: none
-- locks: the commands, in that order
CREATE OR REPLACE FUNCTION {schema}.hold_in_order(ids bigint[], ended uuid[], outcomes text[])
    RETURNS void LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    reached uuid[];
BEGIN
    WITH RECURSIVE below(id, outcome) AS (
        SELECT e.id, e.outcome FROM unnest(ended, outcomes) AS e(id, outcome)
        UNION
        SELECT d.waiting, coalesce({schema}.edge_verdict(d.condition, below.outcome), 'met')
          FROM below
         CROSS JOIN LATERAL (SELECT n.waiting, n.condition FROM {schema}.dependencies n
                              WHERE n.needs = below.id AND below.outcome <> 'met' OFFSET 0) d
    )
    SELECT array_agg(DISTINCT id) INTO reached FROM below;
    PERFORM FROM {schema}.commands c
      WHERE c.id = ANY (ids || ARRAY(
                SELECT w.id FROM unnest(reached) AS r(id)
                 CROSS JOIN LATERAL (SELECT k.id FROM {schema}.commands k WHERE k.command_id = r.id OFFSET 0) w))
      ORDER BY c.needs > 0, c.id FOR UPDATE;
END
$$;
