-- Raise that the arrays of one page have different lengths.
-- called by: receive, send_command_arrays, write_events, write_webhooks
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.refuse_ragged(VARIADIC lengths integer[]) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM unnest(lengths) AS length WHERE length <> lengths[1]) THEN
        RAISE EXCEPTION 'arrays of different lengths: %', lengths
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Give each column as many entries as types, or NULL for the whole column.';
    END IF;
END
$$;
