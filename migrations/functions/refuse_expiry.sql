-- Refuse a command that expires before it could start, or at a time that drivers cannot read.
--
-- A command that is due, and late, is not refused: it is written, and expires at once.
-- called by: trigger commands_above_expiry
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.refuse_expiry() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.expires_at <= NEW.run_at THEN
        RAISE EXCEPTION 'expires_at must be later than run_at: the command could never start'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RAISE EXCEPTION 'expires_at must lie between 1970 and 9999' USING ERRCODE = 'invalid_parameter_value';
END
$$;
