-- The errors of a command with the reason of its end, that it expired.
-- called by: put_away, the daemon
-- roles: worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.add_expiry(errors jsonb, expires_at timestamptz) RETURNS jsonb
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(errors, '[]') || jsonb_build_object(
        'at', clock_timestamp(),
        'error', 'Expired: it had not started at ' || to_char(expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC')
$$;
