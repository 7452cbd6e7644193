-- Send a workflow: steps are commands with a name and, in "after", their prerequisites.
--
-- "after" is a step's name, or {"step": …, "when": "succeeded" | "failed" | "finished"}, or an array of these. A step may
-- only wait for steps listed before it, so that there can be no cycle. Nested loops are off: the planner expects 100 steps,
-- and would join 10,000 steps by loops in loops.
-- called by: producers
-- roles: producer, worker
-- locks: the new rows
CREATE OR REPLACE FUNCTION {schema}.send_workflow(
    name text, steps jsonb, then_send jsonb DEFAULT NULL, otherwise_send jsonb DEFAULT NULL,
    finally_send jsonb DEFAULT NULL, tenant text DEFAULT NULL, correlation_id text DEFAULT NULL,
    causation_id uuid DEFAULT NULL, traceparent text DEFAULT NULL, batch_id uuid DEFAULT NULL, type text DEFAULT '',
    OUT id bigint, OUT new_batch_id uuid
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_nestloop = off SET enable_hashjoin = on SET jit = off AS $$
#variable_conflict use_column
DECLARE
    b     {schema}.batches;
    wrong record;
    ids   uuid[];
BEGIN
    SELECT s.value ->> 'name' AS step, count(*) AS times INTO wrong
      FROM jsonb_array_elements(steps) AS s(value)
     GROUP BY 1 HAVING count(*) > 1 OR coalesce(s.value ->> 'name', '') = '' LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'workflow %: % steps have the name %', quote_literal(send_workflow.name), wrong.times,
            coalesce(quote_literal(wrong.step), 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give each step a name of its own.';
    END IF;
    SELECT e.step, e.needs, g.n IS NULL AS unknown INTO wrong
      FROM {schema}.workflow_edges(steps) AS e
      LEFT JOIN jsonb_array_elements(steps) WITH ORDINALITY AS g(value, n) ON g.value ->> 'name' = e.needs
     WHERE g.n IS NULL OR g.n >= e.ordinal LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'workflow %: step % waits for %, which is % ', quote_literal(send_workflow.name),
            quote_literal(wrong.step), coalesce(quote_literal(wrong.needs), 'NULL'),
            CASE WHEN wrong.unknown THEN 'no step of it' ELSE 'not listed before it: a cycle, or the wrong order' END
            USING ERRCODE = 'invalid_parameter_value', HINT = 'List each step after those that it waits for.';
    END IF;
    SELECT e.step, e.needs, string_agg(DISTINCT e.condition, ' and ') AS conditions INTO wrong
      FROM {schema}.workflow_edges(steps) AS e GROUP BY 1, 2
    HAVING bool_or(e.condition NOT IN ('succeeded', 'failed', 'finished'))
        OR count(DISTINCT e.condition) FILTER (WHERE e.condition <> 'finished') > 1 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'workflow %: step % waits for % to have %', quote_literal(send_workflow.name),
            quote_literal(wrong.step), quote_literal(wrong.needs), wrong.conditions
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Say one of succeeded, failed and finished.';
    END IF;
    SELECT o.id, o.new_batch_id INTO send_workflow.id, send_workflow.new_batch_id
      FROM {schema}.open_batch(send_workflow.name, then_send, otherwise_send, finally_send, '1 day',
               send_workflow.tenant, send_workflow.correlation_id, send_workflow.causation_id,
               send_workflow.traceparent, send_workflow.batch_id, send_workflow.type) AS o;
    UPDATE {schema}.batches AS w SET kind = 'workflow', size = jsonb_array_length(steps)
     WHERE w.id = send_workflow.id RETURNING * INTO b;
    ids := {schema}.insert_members(
        (SELECT coalesce(jsonb_agg(s.value - 'name' - 'after' ORDER BY s.n), '[]')
           FROM jsonb_array_elements(steps) WITH ORDINALITY AS s(value, n)),
        b.id, 'api', NULL, 0, b.tenant, b.correlation_id, b.batch_id, b.traceparent);
    INSERT INTO {schema}.steps (batch_id, name, member, after)
    SELECT b.id, s.value ->> 'name', ids[s.n], coalesce(a.after, '{}')
      FROM jsonb_array_elements(steps) WITH ORDINALITY AS s(value, n)
      LEFT JOIN (SELECT e.step, array_agg(DISTINCT e.needs || ' ' || e.condition) AS after
                   FROM {schema}.workflow_edges(steps) AS e GROUP BY e.step) AS a ON a.step = s.value ->> 'name';
    INSERT INTO {schema}.dependencies (needs, waiting, condition)
    SELECT DISTINCT before.member, after.member, e.condition
      FROM {schema}.workflow_edges(steps) AS e
      JOIN {schema}.steps AS after ON after.batch_id = b.id AND after.name = e.step
      JOIN {schema}.steps AS before ON before.batch_id = b.id AND before.name = e.needs;
    -- No other transaction sees these rows yet.
    UPDATE {schema}.commands AS c
       SET needs = given.needs, awaited = given.awaited,
           status = CASE WHEN given.needs > 0 THEN 'waiting' ELSE c.status END
      FROM (SELECT edge.id, sum(edge.needs) AS needs, bool_or(edge.awaited) AS awaited
              FROM {schema}.dependencies AS d
             CROSS JOIN LATERAL (VALUES (d.waiting, 1, false), (d.needs, 0, true)) AS edge(id, needs, awaited)
             WHERE d.waiting = ANY (ids) GROUP BY edge.id) AS given
     WHERE c.command_id = given.id;
    PERFORM {schema}.close_batch(new_batch_id);
END
$$;
