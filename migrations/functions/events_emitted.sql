-- Send emitted events to the endpoints that want them: for each such event one command, in the transaction of the insert,
-- whatever the number of endpoints (write_emitted). A worker turns it into deliveries.
--
-- Without such endpoints this reads an empty table. Events that are written as dead letters are not sent. A session that
-- writes events which customers must not get sets inboxd.webhooks = 'off'. So do write_received and store_messages, whose
-- events were received and not emitted, and take_events, whose events were sent before: each for its own writes, by
-- set_config, because only superusers may create a function with such a setting.
-- called by: trigger events_emitted
-- roles: none
-- locks: the new rows
CREATE OR REPLACE FUNCTION {schema}.events_emitted() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    ids bigint[];
BEGIN
    IF NOT EXISTS (SELECT FROM {schema}.emitted_types) THEN
        RETURN NULL;
    END IF;
    IF current_setting('inboxd.webhooks', true) = 'off' THEN
        RETURN NULL;
    END IF;
    -- First by type, of which a page has few: endpoints want few types.
    WITH asked AS MATERIALIZED (
        SELECT one.type, p.patterns
          FROM (SELECT DISTINCT w.type FROM written w) AS one
         CROSS JOIN LATERAL {schema}.type_patterns(one.type) AS p(patterns)
         WHERE EXISTS (SELECT FROM {schema}.emitted_types t WHERE t.type = ANY (p.patterns))
    )
    SELECT array_agg(w.id ORDER BY w.id) INTO ids
      FROM written w JOIN asked a ON a.type = w.type
     WHERE w.status <> 'failed'
       AND EXISTS (SELECT FROM {schema}.emitted_types t
                    WHERE t.type = ANY (a.patterns) AND t.tenant = ANY (ARRAY['', w.tenant]));
    IF ids IS NOT NULL THEN
        PERFORM {schema}.write_emitted(ids);
    END IF;
    RETURN NULL;
END
$$;
