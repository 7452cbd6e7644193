-- Who takes over a line: the lock's name, and where to look.
-- oldest code: 4
--
-- The locks of buckets had names among which the one of producers («order») could also be a topic's: with a
-- topic of that name, producers would have waited for workers. And the next head is looked for behind the
-- one that is gone: before it, only dead entries can be.

CREATE OR REPLACE FUNCTION {schema}.succeed_head() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('{schema}/' || OLD.topic), OLD.bucket);
    UPDATE {schema}.events e SET head = true
     WHERE e.id = (SELECT n.id FROM {schema}.events n
                    WHERE n.topic = OLD.topic AND n.ordering_key = OLD.ordering_key AND n.place > OLD.place
                    ORDER BY n.place LIMIT 1)
       AND NOT e.head;
    RETURN NULL;
END
$$;
