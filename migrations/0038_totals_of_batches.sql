-- Totals of batches and workflows at any size, and the lowest id of each past day, by which lists leave days out.
-- oldest code: 3
-- functions: first
--
-- Older code counts batches up to a bound, as before. Triggers note the changes that its workers make; its leader does not
-- add them up, so they wait for a newer leader. Days that it counts have no lowest id: lists read these days as before.

-- ---------------------------------------------------------------------------------- batches
-- A change of the number of batches, in the transaction that changes it. The leader adds changes up and removes them;
-- readers add the rest. No row is updated: concurrent folds do not wait for each other.

CREATE TABLE {schema}.batch_changes (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind   text NOT NULL,
    type   text NOT NULL,
    tenant text,
    status text NOT NULL,
    rows   bigint NOT NULL  -- negative: there are fewer
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 10000);

-- The number of batches by status: of all, by type, by tenant, by both. apart: which of these a row belongs to. A type or
-- tenant that it does not tell apart is ''. A row without batches is removed.
CREATE TABLE {schema}.batch_totals (
    kind   text NOT NULL,
    apart  text NOT NULL CHECK (apart IN ('nothing', 'type', 'tenant', 'both')),
    type   text NOT NULL,
    tenant text NOT NULL,  -- the first 255 characters: handlers may give a longer one
    status text NOT NULL,
    rows   bigint NOT NULL,
    PRIMARY KEY (kind, apart, type, tenant, status)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX batch_totals_none ON {schema}.batch_totals (kind) WHERE rows = 0;

CREATE TRIGGER batches_added AFTER INSERT ON {schema}.batches REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.batches_changed();
CREATE TRIGGER batches_moved AFTER UPDATE OF kind, type, tenant, status ON {schema}.batches FOR EACH ROW
    WHEN (OLD.kind <> NEW.kind OR OLD.type <> NEW.type OR OLD.tenant IS DISTINCT FROM NEW.tenant OR OLD.status <> NEW.status)
    EXECUTE FUNCTION {schema}.batches_changed();
CREATE TRIGGER batches_removed AFTER DELETE ON {schema}.batches REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.batches_changed();

-- The batches that exist: the triggers lock the table against writers until all are counted.
INSERT INTO {schema}.batch_changes (kind, type, tenant, status, rows)
SELECT kind, type, tenant, status, count(*) FROM {schema}.batches GROUP BY kind, type, tenant, status;

-- ---------------------------------------------------------------------------------- days
-- Lists by descending id leave out days that have no row below the id from which they go on.

ALTER TABLE {schema}.census ADD COLUMN low_id bigint;  -- no row has a lower one; NULL: counted by older code

-- Days that are counted already: the index finds their lowest id.
DO $low$
DECLARE
    day text;
BEGIN
    FOR day IN SELECT c.part FROM {schema}.census c JOIN {schema}.partitions p ON p.part = c.part
                WHERE c.counted_at IS NOT NULL AND NOT p.pending
    LOOP
        EXECUTE format('UPDATE {schema}.census SET low_id = coalesce((SELECT min(id) FROM {schema}.%I), 9223372036854775807)'
                       ' WHERE part = %L', day, day);
    END LOOP;
END
$low$;

DO $do$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['{schema}_viewer', '{schema}_operator'] LOOP
        CONTINUE WHEN to_regrole(role) IS NULL;
        EXECUTE format('GRANT SELECT (id, kind, type, tenant, status, rows) ON {schema}.batch_changes TO %I', role);
        EXECUTE format('GRANT SELECT (kind, apart, type, tenant, status, rows) ON {schema}.batch_totals TO %I', role);
        EXECUTE format('GRANT SELECT (low_id) ON {schema}.census TO %I', role);
    END LOOP;
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.batch_changes, {schema}.batch_totals TO {schema}_worker;
    END IF;
END
$do$;
