-- How far a file has come is its login's own to say; deliveries are written by the functions that make them alone. Besides,
-- functions have changed.
-- oldest code: 3
-- functions: first
--
-- Code of before sends its files by the same functions, and its deliveries too.

-- ---------------------------------------------------------------------------------- imports
-- Another producer that knew a file's name moved it on, and its lines were never written.

ALTER TABLE {schema}.imports ADD COLUMN owner text NOT NULL DEFAULT '';  -- the login; '': of before, whoever goes on with it
ALTER TABLE {schema}.imports
    DROP CONSTRAINT imports_pkey, ADD CONSTRAINT imports_pkey PRIMARY KEY (kind, name, owner);

-- ---------------------------------------------------------------------------------- deliveries
-- A delivery names an endpoint and a message id, which write_webhooks checks; one that is written by hand names any. Whoever
-- may change endpoints may also do that; what is replayed was checked once.

CREATE TRIGGER commands_above_delivery BEFORE INSERT ON {schema}.commands FOR EACH ROW
    WHEN (NEW.type IN ('webhook.deliver', 'webhook.emitted') AND NEW.replay_of IS NULL
          AND NOT has_table_privilege('{schema}.endpoints'::regclass, 'UPDATE'))
    EXECUTE FUNCTION {schema}.refuse_delivery();
