-- Send commands from plain SQL: a JSON array of objects whose keys are the arguments of send_command. Returns the same as
-- send_command_arrays.
-- called by: the daemon, producers
-- roles: producer, worker
-- locks: as send_command_arrays
CREATE OR REPLACE FUNCTION {schema}.send_commands(commands jsonb)
    RETURNS TABLE (ordinal bigint, id bigint, command_id uuid, duplicate boolean)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {schema}.refuse_unknown_keys(commands, ARRAY[
        'command_id', 'queue', 'type', 'schema_version', 'payload', 'priority',
        'run_at', 'deadline', 'max_attempts', 'tenant', 'entity_type', 'entity_id',
        'correlation_id', 'causation_id', 'traceparent', 'ordering_key', 'unique_key', 'on_conflict']);
    SELECT written.*
      FROM (SELECT array_agg(r.type) AS types, array_agg(r.payload) AS payloads,
                   array_agg(r.queue) AS queues,
                   array_agg(r.command_id) AS command_ids,
                   array_agg(r.schema_version) AS schema_versions,
                   array_agg(r.priority) AS priorities,
                   array_agg(r.run_at) AS run_ats,
                   array_agg(r.deadline) AS deadlines,
                   array_agg(r.max_attempts) AS max_attempts,
                   array_agg(r.tenant) AS tenants,
                   array_agg(r.entity_type) AS entity_types,
                   array_agg(r.entity_id) AS entity_ids,
                   array_agg(r.correlation_id) AS correlation_ids,
                   array_agg(r.causation_id) AS causation_ids,
                   array_agg(r.traceparent) AS traceparents,
                   array_agg(r.ordering_key) AS ordering_keys,
                   array_agg(r.unique_key) FILTER (WHERE u.any_unique) AS unique_keys,
                   array_agg(r.on_conflict) FILTER (WHERE u.any_unique) AS on_conflicts
              FROM (SELECT value FROM jsonb_array_elements(commands) WITH ORDINALITY AS e(value, n)
                     ORDER BY n) AS item
             CROSS JOIN LATERAL jsonb_to_record(item.value) AS r(
                   command_id uuid, queue text, type text, schema_version integer, payload jsonb,
                   priority integer, run_at timestamptz, deadline timestamptz, max_attempts integer,
                   tenant text, entity_type text, entity_id text, correlation_id text,
                   causation_id uuid, traceparent text, ordering_key text, unique_key text, on_conflict text)
             CROSS JOIN (SELECT EXISTS (SELECT FROM jsonb_array_elements(commands) AS e(value)
                                         WHERE e.value ->> 'unique_key' IS NOT NULL) AS any_unique) AS u) AS a
     CROSS JOIN LATERAL {schema}.send_command_arrays(
           a.types, a.payloads, a.queues, a.command_ids, a.schema_versions, a.priorities, a.run_ats,
           a.deadlines, a.max_attempts, a.tenants, a.entity_types, a.entity_ids, a.correlation_ids,
           a.causation_ids, a.traceparents, a.ordering_keys, a.unique_keys, a.on_conflicts) AS written
     ORDER BY written.ordinal
$$;
