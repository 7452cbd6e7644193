-- An upper bound of the headers' size in memory: no compression leaves less than a 255th. Inlined.
-- called by: the daemon
-- roles: worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.headers_weight(headers jsonb) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.pg_column_size(headers)::bigint
           * CASE WHEN pg_catalog.pg_column_compression(headers) IS NULL THEN 1 ELSE 255 END
$$;
