-- A page of the held receipts of a source: their positions, the oldest first, behind a position. whole: there are no
-- others. It has at most `most` receipts, and ends with the one that has its 5,000th event.
-- called by: release_receipts
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.page_of_held(
    of_source text, past bigint, most integer, OUT places bigint[], OUT whole boolean
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT coalesce(array_agg(p.position ORDER BY p.position) FILTER (WHERE p.before < 5000), '{}'),
           count(*) < most AND bool_and(p.before < 5000) IS NOT FALSE
      FROM (SELECT h.position, sum(h.count) OVER (ORDER BY h.position) - h.count AS before
              FROM (SELECT r.position, jsonb_array_length(r.events) AS count FROM {schema}.held_receipts r
                     WHERE r.source = of_source AND r.position > past ORDER BY r.position LIMIT most) AS h) AS p
$$;
