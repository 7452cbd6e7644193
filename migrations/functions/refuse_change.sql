-- Refuse a change of an event's contents.
-- called by: trigger events_immutable
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'event % is a fact: what it says does not change', OLD.id USING ERRCODE = 'IB003';
END
$$;
