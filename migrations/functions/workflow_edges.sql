-- The edges of a graph of steps, as the caller wrote them.
-- called by: send_workflow
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.workflow_edges(steps jsonb)
    RETURNS TABLE (ordinal bigint, step text, needs text, condition text)
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.n, s.value ->> 'name',
           CASE jsonb_typeof(a.value) WHEN 'object' THEN a.value ->> 'step' ELSE a.value #>> '{}' END,
           CASE jsonb_typeof(a.value) WHEN 'object' THEN coalesce(a.value ->> 'when', 'succeeded') ELSE 'succeeded' END
      FROM jsonb_array_elements(steps) WITH ORDINALITY AS s(value, n)
     CROSS JOIN LATERAL jsonb_array_elements(
           CASE jsonb_typeof(s.value -> 'after') WHEN 'array' THEN s.value -> 'after'
                ELSE jsonb_build_array(s.value -> 'after') END) AS a(value)
     WHERE s.value ? 'after'
$$;
