-- Erase the contents of receipts: body, headers, address. Source, time and event ids stay.
--
-- One by one: in a join with the ids, a day that the planner believes to be empty would be read completely for each.
-- called by: the daemon
-- roles: none
-- locks: the rows
CREATE OR REPLACE FUNCTION {schema}.erase_receipts(receipts uuid[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
    erased uuid;
BEGIN
    FOREACH erased IN ARRAY receipts LOOP
        UPDATE {schema}.kept_receipts r SET body = NULL, headers = NULL, address = NULL WHERE r.receipt_id = erased;
        UPDATE {schema}.receipts r SET body = NULL, headers = NULL, address = NULL
         WHERE r.received_at = {schema}.receipt_time(erased) AND r.receipt_id = erased;
    END LOOP;
END
$$;
