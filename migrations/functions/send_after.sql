-- Send commands (one, or an array, as in send_commands) that wait for the end of a command or a batch, which may have ended
-- already. Returns their ids. The login must have sent that command or batch (is_of_login).
-- called by: producers
-- roles: producer, worker
-- locks: what is awaited; the new rows
CREATE OR REPLACE FUNCTION {schema}.send_after(
    needs uuid, commands jsonb, condition text DEFAULT 'succeeded', tenant text DEFAULT NULL,
    correlation_id text DEFAULT NULL, causation_id uuid DEFAULT NULL, traceparent text DEFAULT NULL
) RETURNS SETOF uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ended   record;
    verdict text;
    ids     uuid[];
BEGIN
    IF condition NOT IN ('succeeded', 'failed', 'finished') THEN
        RAISE EXCEPTION 'condition % is none of succeeded, failed, finished', quote_literal(condition)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF jsonb_typeof(commands) = 'object' THEN
        commands := jsonb_build_array(commands);
    END IF;
    -- An empty array would lock the awaited row for nothing.
    IF jsonb_typeof(commands) = 'array' AND jsonb_array_length(commands) = 0 THEN
        RAISE EXCEPTION 'commands is empty: nothing would wait' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    ended := {schema}.await_end(needs);
    IF NOT ended.known THEN
        RAISE EXCEPTION 'there is no command or batch %', needs USING ERRCODE = 'IB004',
            HINT = 'Send what is to be waited for first, in the same transaction or an earlier one.';
    END IF;
    verdict := CASE WHEN ended.outcome IS NOT NULL THEN {schema}.edge_verdict(condition, ended.outcome) END;
    IF verdict IN ('cancelled', 'skipped') THEN
        RAISE EXCEPTION '% has ended (%): what waits for «%» would never run', needs, ended.outcome, condition
            USING ERRCODE = 'IB005';
    END IF;
    ids := {schema}.insert_members(commands, NULL, 'api', NULL, (verdict IS NULL)::integer, tenant,
                                   correlation_id, coalesce(causation_id, needs), traceparent);
    IF verdict IS NULL THEN
        INSERT INTO {schema}.dependencies (needs, waiting, condition)
        SELECT ended.needs, id, send_after.condition FROM unnest(ids) AS id;
    END IF;
    RETURN QUERY SELECT unnest(ids);
END
$$;
