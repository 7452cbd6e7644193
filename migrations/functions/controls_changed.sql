-- Notify every worker that something was paused or resumed, or that a breaker or an endpoint changed.
-- called by: trigger breakers_changed, trigger controls_changed, trigger endpoints_changed
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.controls_changed() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('inboxd.notify', true) IS DISTINCT FROM 'off' THEN
        PERFORM pg_notify('{schema}_controls', '');
    END IF;
    RETURN NULL;
END
$$;
