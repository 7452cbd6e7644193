-- Events that are emitted reach the endpoints of webhooks that ask for them.
-- oldest code: 3
-- functions: first; new texts: write_webhooks
--
-- Code of before has no handler of `webhook.emitted`: what is emitted waits for a worker of this release. Until somebody asks
-- for it, nothing is written. Endpoints of an older worker's settings ask for nothing.

ALTER TABLE {schema}.endpoints ADD COLUMN events boolean NOT NULL DEFAULT false;  -- what is emitted reaches it, too

-- What the enabled ones of these ask for: as many rows as they have different types, so that an insert of events need not look
-- at thousands of endpoints. Written by a trigger.
CREATE TABLE {schema}.emitted_types (
    type    text NOT NULL,     -- or a pattern, as in endpoints.types
    tenant  text NOT NULL,     -- '': any
    ordered boolean NOT NULL,  -- one of them is ordered
    PRIMARY KEY (type, tenant)
);

CREATE TRIGGER endpoints_emitted
    AFTER INSERT OR DELETE OR UPDATE OF types, tenant, ordered, events, enabled ON {schema}.endpoints
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.endpoints_emitted();

CREATE TRIGGER events_emitted AFTER INSERT ON {schema}.events REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.events_emitted();

-- Made anew above, with one parameter more; callers that do not give it find the new one.
DROP FUNCTION IF EXISTS {schema}.write_webhooks(
    text[], jsonb[], text[], text[], text[], text[], text[], text[], timestamptz[], timestamptz[], text[], uuid[], text[],
    text[], bigint[]);

DO $do$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['{schema}_viewer', '{schema}_operator'] LOOP
        CONTINUE WHEN to_regrole(role) IS NULL;
        EXECUTE format('GRANT SELECT (events) ON {schema}.endpoints TO %I', role);
    END LOOP;
END
$do$;
