-- When the next command of an ordering key may start, of queues whose keys have a rate (key_rate in [queues.NAME]).
-- oldest code: 3
--
-- Code of before knows no such rate, and starts commands as it did.

-- A row is written at each start of a command of such a queue, and removed a day after its time.
CREATE TABLE {schema}.key_rates (
    queue        text NOT NULL,
    ordering_key text NOT NULL,
    next_at      timestamptz NOT NULL,
    PRIMARY KEY (queue, ordering_key)
);

CREATE INDEX key_rates_next_at ON {schema}.key_rates (next_at);

DO $do$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['{schema}_viewer', '{schema}_operator'] LOOP
        CONTINUE WHEN to_regrole(role) IS NULL;
        EXECUTE format('GRANT SELECT (queue, ordering_key, next_at) ON {schema}.key_rates TO %I', role);
    END LOOP;
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.key_rates TO {schema}_worker;
    END IF;
END
$do$;
