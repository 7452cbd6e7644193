-- Raise that a transition is illegal.
-- called by: trigger commands_transition, trigger events_transition
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.refuse_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'illegal transition of % %: % -> %', TG_TABLE_NAME, OLD.id, OLD.status, NEW.status
        USING ERRCODE = 'IB002';
END
$$;
