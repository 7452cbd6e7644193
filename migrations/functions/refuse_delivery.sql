-- Refuse a plain INSERT of a delivery.
-- called by: trigger commands_above_delivery
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.refuse_delivery() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM {schema}.refuse_deliveries(ARRAY[NEW.type]);
    RETURN NEW;
END
$$;
