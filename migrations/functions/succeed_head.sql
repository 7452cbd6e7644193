-- When the head has left its line, the next in it is the head; when it stays, it gives way to what was lined up in front
-- of it.
--
-- The caller should hold the bucket's lock already; who does not gets it here, so that no arrival is lined up behind a
-- head that is gone. The next is looked for behind the one that is gone: before it, only dead entries can be.
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
