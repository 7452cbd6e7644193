-- A dead letter of a batch topic that is tried again goes into a list, where it was run alone.
-- oldest code: 4

-- events_wait as 0010 has it, and: a dead letter of a batch topic arrives once more, to be filed in front
-- of its line (file_arrivals.sql). What waits for a retry of its own, or was in the list at a worker's
-- death, is no dead letter: that still runs alone, from its lane.
DROP TRIGGER events_wait ON {schema}.events;
CREATE TRIGGER events_wait BEFORE UPDATE OF status ON {schema}.events FOR EACH ROW
    WHEN (NEW.status = 'pending'
          AND (NEW.mode = 'sequential' OR (NEW.mode = 'batch' AND OLD.status = 'failed')))
    EXECUTE FUNCTION {schema}.stay_in_line();

-- succeed_head as 0011 has it, and: a head that stays in its line gives way to what was filed in front of it.
CREATE OR REPLACE FUNCTION {schema}.succeed_head() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    behind bigint := OLD.place;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.place IS NOT NULL THEN
            behind := -9223372036854775808;
        END IF;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('{schema}/' || OLD.topic), OLD.bucket);
    UPDATE {schema}.events e SET head = true
     WHERE e.id = (SELECT n.id FROM {schema}.events n
                    WHERE n.topic = OLD.topic AND n.ordering_key = OLD.ordering_key AND n.place > behind
                    ORDER BY n.place LIMIT 1)
       AND NOT e.head;
    RETURN NULL;
END
$$;
