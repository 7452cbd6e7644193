-- Insert commands from JSON, for batches, workflows and dependents. Returns their ids in the order given.
-- called by: add_continuations, add_to_batch, send_after, send_workflow
-- roles: none
-- locks: the new rows
CREATE OR REPLACE FUNCTION {schema}.insert_members(
    members jsonb, batch bigint, kind text, origin bigint, needs integer,
    tenant text, correlation text, causation uuid, trace text
) RETURNS uuid[] LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ids uuid[];
BEGIN
    PERFORM {schema}.refuse_unknown_keys(members, ARRAY[
        {each given command but unique_key, on_conflict, correlation_id, causation_id, traceparent: 'NAME'}]);
    IF members @> '[{"type": "webhook.deliver"}]' OR members @> '[{"type": "webhook.emitted"}]' THEN
        PERFORM {schema}.refuse_deliveries(ARRAY(SELECT m ->> 'type' FROM jsonb_array_elements(members) AS m));
    END IF;
    WITH given AS MATERIALIZED (
        SELECT m.n, coalesce(r.command_id, {schema}.new_uuid()) AS id, r.*
          FROM jsonb_array_elements(members) WITH ORDINALITY AS m(value, n)
         CROSS JOIN LATERAL jsonb_to_record(m.value) AS r(
               {each given command but unique_key, on_conflict, correlation_id, causation_id, traceparent: NAME TYPE})
    ), written AS (
        INSERT INTO {schema}.commands
               (command_id, schema_version, payload, priority, run_at, tenant, origin_kind, origin_id, batch_id,
                correlation_id, causation_id, traceparent, needs, awaited, status,
                {each stored command but command_id, schema_version, payload, priority, run_at, tenant, unique_key,
                                         correlation_id, causation_id, traceparent: NAME})
        SELECT id, coalesce(schema_version, 1), coalesce(payload, '{}'), coalesce(priority, 0),
               coalesce(run_at, now()), coalesce(given.tenant, insert_members.tenant), kind, origin, batch,
               correlation, causation, trace, insert_members.needs, false,
               CASE WHEN insert_members.needs > 0 THEN 'waiting' ELSE 'pending' END,
               {each stored command but command_id, schema_version, payload, priority, run_at, tenant, unique_key,
                                        correlation_id, causation_id, traceparent: NAME}
          FROM given ORDER BY n
    )
    SELECT coalesce(array_agg(id ORDER BY n), '{}') INTO ids FROM given;
    RETURN ids;
END
$$;
