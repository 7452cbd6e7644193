-- The patterns by which endpoints may ask for a type: itself, its beginning up to each dot with an asterisk, and `*`.
-- called by: events_emitted, write_emitted
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.type_patterns(of_type text) RETURNS text[]
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY[of_type, '*'] || ARRAY(SELECT left(of_type, n) || '*' FROM generate_series(1, length(of_type)) AS n
                                         WHERE substr(of_type, n, 1) = '.')
$$;
