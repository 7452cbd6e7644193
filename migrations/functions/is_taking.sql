-- Whether the current transaction moves events between topics: it has changed a row of intakes, which producers may not.
--
-- Events that are moved were accepted before, under the limits of that time.
-- called by: put_body, refuse_bytes, refuse_headers
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.is_taking() RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM {schema}.intakes i WHERE i.xmin = pg_current_xact_id_if_assigned()::xid);
END
$$;
