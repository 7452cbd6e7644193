-- Lock commands, several of which are about to end or to become dead letters, and the rows that this will change
-- (hold_in_order).
--
-- outcomes: how each ends (NULL: it goes on), or one for all. The end of a single command without dependencies needs no
-- such call, since release locks its dependents in order. A second call would lock its dependents after them.
-- called by: end_members, replay_commands, resolve_unique_keys, the daemon
-- roles: operator, worker
-- locks: the named commands, and those below them, in the order of hold_in_order
CREATE OR REPLACE FUNCTION {schema}.hold_ending(ids bigint[], outcomes text[]) RETURNS void
    LANGUAGE sql VOLATILE
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    SELECT {schema}.hold_in_order(hold_ending.ids, array_agg(c.command_id), array_agg(e.outcome))
      FROM (SELECT u.id, hold_ending.outcomes[CASE cardinality(hold_ending.outcomes) WHEN 1 THEN 1 ELSE u.n END] AS outcome
              FROM unnest(hold_ending.ids) WITH ORDINALITY AS u(id, n)) e
     CROSS JOIN LATERAL (SELECT k.command_id FROM {schema}.commands k WHERE k.id = e.id AND k.awaited OFFSET 0) c
     WHERE e.outcome IS NOT NULL
$$;
