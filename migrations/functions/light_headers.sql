-- Headers if they are small; NULL for large ones, which a worker reads when the row starts. Inlined.
-- called by: the daemon
-- roles: worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.light_headers(headers jsonb) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN pg_catalog.pg_column_size(headers) <= 1000 AND pg_catalog.pg_column_compression(headers) IS NULL
                THEN headers END
$$;
