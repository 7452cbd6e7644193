-- Partitions that have served their time: detached, exported where wanted, dropped; and small purges.
-- oldest code: 4
--
-- A worker may run as a role without any right to change the schema (0004). So what changes it is done
-- by functions of the owner's, which do nothing else: they touch only partitions of the three tables,
-- whole days that are over. DETACH … CONCURRENTLY cannot run inside a function; a worker whose login is
-- a member of the owner's role runs it itself, the others let leave_partition wait 50 ms for its lock.

-- ----------------------------------------------------------------------------------- retired
-- A row for each partition that is to go, written before it is detached: what a worker finds detached and
-- written down here, it drops (or attaches again); what somebody else detached, it never touches.

CREATE TABLE {schema}.retired (
    part        text PRIMARY KEY,
    parent      text NOT NULL CHECK (parent IN ('bodies', 'events_history', 'commands_history')),
    low         timestamptz NOT NULL,
    high        timestamptz NOT NULL,
    retired_at  timestamptz NOT NULL DEFAULT now(),
    rows        bigint,       -- exported rows; null: not exported
    bytes       bigint,       -- of the file
    file        text,         -- host and path
    exported_at timestamptz,
    dropped_at  timestamptz
);

-- Which types have been removed from which partition (a type's own, shorter retention).
CREATE TABLE {schema}.trimmed (
    part       text NOT NULL,
    type       text NOT NULL,
    rows       bigint NOT NULL,
    trimmed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (part, type)
);

-- ------------------------------------------------------------------------------------ indexes
-- Rows that were settled more than a day after their body was stored: few, and the only ones in
-- partitions that are kept which may need a body of a partition that goes.

CREATE INDEX events_history_late ON {schema}.events_history (body_at)
    WHERE (finished_at - body_at) > interval '1 day';
CREATE INDEX commands_history_late ON {schema}.commands_history (body_at)
    WHERE (finished_at - body_at) > interval '1 day';
CREATE INDEX replays_at ON {schema}.replays (at);

-- ---------------------------------------------------------------------------------- partitions

-- Every partition of the three tables, with the range that it holds.
CREATE VIEW {schema}.partitions AS
SELECT parent.relname::text AS parent, part.relname::text AS part, part.oid AS oid,
       substring(bound.text FROM $r$FROM \('([^']+)'\)$r$)::timestamptz AS low,
       substring(bound.text FROM $r$TO \('([^']+)'\)$r$)::timestamptz AS high,
       i.inhdetachpending AS pending
  FROM pg_class parent
  JOIN pg_inherits i ON i.inhparent = parent.oid
  JOIN pg_class part ON part.oid = i.inhrelid
 CROSS JOIN LATERAL (SELECT pg_get_expr(part.relpartbound, part.oid) AS text) bound
 WHERE parent.relnamespace = to_regnamespace('{schema}') AND parent.relkind = 'p'
   AND parent.relname IN ('bodies', 'events_history', 'commands_history');

-- A partition whose range ended at least a day ago and that was written down as retired, or an error.
CREATE FUNCTION {schema}.retired_partition(wanted text) RETURNS {schema}.retired
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_ {schema}.retired;
BEGIN
    SELECT * INTO found_ FROM {schema}.retired r
     WHERE r.part = wanted AND r.dropped_at IS NULL AND r.high <= now() - interval '1 day';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'partition % is not written down as retired, or its day is not over', wanted
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN found_;
END
$$;

-- Detach a partition without CONCURRENTLY: the lock stops readers and writers, so it is waited for only
-- briefly, held only while the catalogue is written, and tried again later.
CREATE FUNCTION {schema}.leave_partition(wanted text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS $$
BEGIN
    EXECUTE format('ALTER TABLE {schema}.%I DETACH PARTITION {schema}.%I',
                   ({schema}.retired_partition(wanted)).parent, wanted);
END
$$;

-- End a concurrent detach that was interrupted; nobody can detach another before. It waits for old
-- snapshots with the partition locked: whoever reads it from such a snapshot would wait for this, and this
-- for them. So it gives up long before PostgreSQL looks for deadlocks, and is tried again later.
CREATE FUNCTION {schema}.finalize_partition(wanted text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS $$
DECLARE
    of_table text := (SELECT parent FROM {schema}.partitions WHERE part = wanted AND pending);
BEGIN
    IF of_table IS NOT NULL THEN
        EXECUTE format('ALTER TABLE {schema}.%I DETACH PARTITION {schema}.%I FINALIZE', of_table, wanted);
    END IF;
END
$$;

-- Attach a retired partition again: what it holds is needed after all.
CREATE FUNCTION {schema}.return_partition(wanted text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    retired {schema}.retired := {schema}.retired_partition(wanted);
BEGIN
    EXECUTE format('ALTER TABLE {schema}.%I ATTACH PARTITION {schema}.%I FOR VALUES FROM (%L) TO (%L)',
                   retired.parent, wanted, retired.low, retired.high);
    DELETE FROM {schema}.retired WHERE part = wanted;
END
$$;

-- Drop a retired partition that is detached. false: it has more rows than were exported, so it was not;
-- null: somebody else has dropped it, or attached it again.
CREATE FUNCTION {schema}.drop_partition(wanted text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    exported bigint;
    there    bigint;
BEGIN
    SELECT r.rows INTO exported FROM {schema}.retired r
     WHERE r.part = wanted AND r.dropped_at IS NULL AND r.high <= now() - interval '1 day' FOR UPDATE;
    IF NOT FOUND OR to_regclass(format('{schema}.%I', wanted)) IS NULL
       OR EXISTS (SELECT FROM {schema}.partitions WHERE part = wanted) THEN
        RETURN NULL;
    END IF;
    IF exported IS NOT NULL THEN
        EXECUTE format('SELECT count(*) FROM {schema}.%I', wanted) INTO there;
        IF there > exported THEN
            RETURN false;
        END IF;
    END IF;
    EXECUTE format('DROP TABLE {schema}.%I', wanted);
    UPDATE {schema}.retired SET dropped_at = clock_timestamp() WHERE part = wanted;
    DELETE FROM {schema}.trimmed WHERE part = wanted;
    RETURN true;
END
$$;

-- -------------------------------------------------------------------------------------- bodies
-- Copy bodies of a range that living or late rows need into today's partition, and point the rows to the
-- copies: the same id, a new time. At most «most» rows of each table, each row under its lock, so that a
-- replay or a settlement takes the new place with it; who is busy is left for the next time. Returns how
-- many rows were changed.

CREATE FUNCTION {schema}.keep_bodies(first timestamptz, past timestamptz, most integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    of_table text;
    late     text;
    changed  bigint;
    total    bigint := 0;
BEGIN
    FOREACH of_table IN ARRAY ARRAY['events', 'commands', 'events_history', 'commands_history'] LOOP
        late := CASE WHEN of_table LIKE '%history'
                     THEN 'AND (r.finished_at - r.body_at) > interval ''1 day''' ELSE '' END;
        EXECUTE format($q$
            WITH held AS MATERIALIZED (
                SELECT r.tableoid, r.ctid, r.body_id, r.body_at FROM {schema}.%1$I r
                 WHERE r.body_at >= $1 AND r.body_at < $2 %2$s
                 LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED
            ), copied AS (
                INSERT INTO {schema}.bodies (id, created_at, payload, raw)
                SELECT b.id, now(), b.payload, b.raw
                  FROM (SELECT DISTINCT body_id, body_at FROM held) AS h
                  JOIN {schema}.bodies b ON b.id = h.body_id AND b.created_at = h.body_at
                    ON CONFLICT DO NOTHING
            )
            UPDATE {schema}.%1$I r SET body_at = now()
              FROM held WHERE r.tableoid = held.tableoid AND r.ctid = held.ctid
            $q$, of_table, late) USING first, past, most;
        GET DIAGNOSTICS changed = ROW_COUNT;
        total := total + changed;
    END LOOP;
    RETURN total;
END
$$;

-- ------------------------------------------------------------------------------- smaller purges

-- Remove rows of some types from so many pages of a partition whose day is over, from a page on.
CREATE FUNCTION {schema}.trim_partition(wanted text, types text[], page bigint, pages integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    removed bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM {schema}.partitions
                    WHERE part = wanted AND parent <> 'bodies' AND high <= now() - interval '1 day') THEN
        RAISE EXCEPTION '% is no partition of history whose day is over', wanted
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    EXECUTE format('DELETE FROM {schema}.%I WHERE ctid >= $1 AND ctid < $2 AND type = ANY ($3)', wanted)
      USING format('(%s,0)', page)::tid, format('(%s,0)', page + pages)::tid, types;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END
$$;

-- Remove old lines of the audit, which the worker's role may not delete otherwise.
CREATE FUNCTION {schema}.purge_audit(age interval, most integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    removed bigint;
BEGIN
    DELETE FROM {schema}.audit WHERE id IN (
        SELECT id FROM {schema}.audit WHERE at < now() - greatest(age, interval '30 days') ORDER BY at LIMIT most);
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END
$$;

-- Nobody else calls what removes things.
REVOKE EXECUTE ON FUNCTION {schema}.retired_partition, {schema}.leave_partition, {schema}.finalize_partition,
       {schema}.return_partition, {schema}.drop_partition, {schema}.keep_bodies, {schema}.trim_partition,
       {schema}.purge_audit FROM PUBLIC;

DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT ON {schema}.partitions TO {schema}_worker;
        GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.retired, {schema}.trimmed TO {schema}_worker;
        GRANT EXECUTE ON FUNCTION {schema}.leave_partition, {schema}.finalize_partition, {schema}.return_partition,
              {schema}.drop_partition, {schema}.keep_bodies, {schema}.trim_partition, {schema}.purge_audit
           TO {schema}_worker;
    END IF;
END
$do$;
