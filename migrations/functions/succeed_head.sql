-- If the head has left its line, make the next event the head; if it stays, at another position, give way to an event that
-- was put in front of it.
--
-- The caller should hold the bucket's lock already; if not, it is taken here, or an arriving event might be put behind a
-- head that is gone. The search for the next head begins behind the old one: there are only dead entries before it.
-- called by: trigger events_head_left, trigger events_head_gone
-- roles: none
-- locks: the line's bucket; the next head
CREATE OR REPLACE FUNCTION {schema}.succeed_head() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    behind bigint := OLD.position;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.position IS NOT NULL THEN
            behind := -9223372036854775808;
        END IF;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('{schema}/' || OLD.topic), OLD.bucket);
    UPDATE {schema}.events e SET head = true
     WHERE e.id = (SELECT n.id FROM {schema}.events n
                    WHERE n.topic = OLD.topic AND n.ordering_key = OLD.ordering_key AND n.position > behind
                    ORDER BY n.position LIMIT 1)
       AND NOT e.head;
    RETURN NULL;
END
$$;
