-- Input has bounds: a payload left out, headers, texts that travel; and what the worker's role may change.
-- oldest code: 4
--
-- What travels with a row is bounded where it is written, and nowhere else: a CHECK would be asked again at
-- every UPDATE, so a row from before with more would never be claimed, retried or dead-lettered, and
-- would spoil each page that has it. The triggers' conditions cost no call; their names come before events_accept
-- and commands_body, so that a key is refused before an index is asked to hold it.

-- A payload that is left out, by COPY too, is {}; NULL that is given stays NULL, which handlers read as JSON's
-- null, and is what a row has whose payload is in `bodies`.
ALTER TABLE {schema}.events ALTER COLUMN payload SET DEFAULT '{}';
ALTER TABLE {schema}.commands ALTER COLUMN payload SET DEFAULT '{}';

-- -------------------------------------------------------------------------------------- texts

CREATE FUNCTION {schema}.refuse_bytes(name text, size integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '% has % bytes; at most 255 fit: shorten it, or put it into the payload', name, size
        USING ERRCODE = 'check_violation', COLUMN = name;
END
$$;

-- Arguments: the columns that were looked at. (One by one: a row is not read as JSON, which cannot hold all.)
CREATE FUNCTION {schema}.refuse_long() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
    size integer;
BEGIN
    FOREACH name IN ARRAY TG_ARGV LOOP
        EXECUTE format('SELECT octet_length(($1).%I)', name) INTO size USING NEW;
        IF size > 255 THEN
            PERFORM {schema}.refuse_bytes(name, size);
        END IF;
    END LOOP;
    RETURN NEW;
END
$$;

CREATE TRIGGER events_above_text BEFORE INSERT ON {schema}.events FOR EACH ROW
    WHEN (greatest(octet_length(NEW.type), octet_length(NEW.topic), octet_length(NEW.source),
                   octet_length(NEW.ordering_key), octet_length(NEW.dedup_key), octet_length(NEW.tenant),
                   octet_length(NEW.entity_type), octet_length(NEW.entity_id),
                   octet_length(NEW.correlation_id), octet_length(NEW.traceparent)) > 255)
    EXECUTE FUNCTION {schema}.refuse_long('type', 'topic', 'source', 'ordering_key', 'dedup_key', 'tenant',
        'entity_type', 'entity_id', 'correlation_id', 'traceparent');

-- A replay is the same row once more. What a handler sends, and a member of a batch, inherits from a row that was
-- accepted once; what a handler gives itself is checked by ctx.send.
CREATE TRIGGER commands_above_text BEFORE INSERT ON {schema}.commands FOR EACH ROW
    WHEN (NEW.replay_of IS NULL
          AND greatest(octet_length(NEW.type), octet_length(NEW.queue), octet_length(NEW.ordering_key),
                       octet_length(NEW.unique_key), octet_length(NEW.entity_type), octet_length(NEW.entity_id),
                       octet_length(NEW.tenant), octet_length(NEW.correlation_id),
                       octet_length(NEW.traceparent)) > 255
          AND (NEW.origin_kind NOT IN ('event', 'command') AND NEW.batch_id IS NULL
               OR greatest(octet_length(NEW.type), octet_length(NEW.queue), octet_length(NEW.ordering_key),
                           octet_length(NEW.unique_key), octet_length(NEW.entity_type),
                           octet_length(NEW.entity_id)) > 255))
    EXECUTE FUNCTION {schema}.refuse_long('type', 'queue', 'ordering_key', 'unique_key', 'entity_type', 'entity_id',
        'tenant', 'correlation_id', 'traceparent');

-- Its members inherit from it.
CREATE TRIGGER batches_above_text BEFORE INSERT ON {schema}.batches FOR EACH ROW
    WHEN (NEW.origin_kind = 'api'
          AND greatest(octet_length(NEW.tenant), octet_length(NEW.correlation_id),
                       octet_length(NEW.traceparent)) > 255)
    EXECUTE FUNCTION {schema}.refuse_long('tenant', 'correlation_id', 'traceparent');

-- emit_event_arrays records keys before it writes events. A contradiction's key is 35 bytes longer at most. (No
-- WHEN: accept_event's INSERT would read it anew for each row, which costs five times as much as the call; no SET,
-- for the same reason: whoever may insert here has set its path.)
CREATE FUNCTION {schema}.refuse_long_key() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF octet_length(NEW.key) > 300 THEN
        PERFORM {schema}.refuse_bytes('dedup_key', octet_length(NEW.key));
    ELSIF octet_length(NEW.source) > 255 THEN
        PERFORM {schema}.refuse_bytes('source', octet_length(NEW.source));
    ELSIF octet_length(NEW.topic) > 255 THEN
        PERFORM {schema}.refuse_bytes('topic', octet_length(NEW.topic));
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER dedup_above_text BEFORE INSERT ON {schema}.dedup FOR EACH ROW
    EXECUTE FUNCTION {schema}.refuse_long_key();

-- ------------------------------------------------------------------------------------ headers

-- By their text, which is what a worker has in memory: ten bytes of jsonb may be a number of 100,000 digits.
-- Baggage (W3C) has 8,192 bytes at most, tracestate 512: 16 KiB leave as much again.
CREATE FUNCTION {schema}.refuse_headers() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '%', CASE WHEN jsonb_typeof(NEW.headers) <> 'object'
            THEN format('headers must be a JSON object, not %s: name each value', jsonb_typeof(NEW.headers))
            ELSE format('headers have %s bytes as JSON; at most 16384 fit: put what is larger into the payload',
                        octet_length(NEW.headers::text)) END
        USING ERRCODE = 'check_violation', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, COLUMN = 'headers';
END
$$;

CREATE TRIGGER events_above_headers BEFORE INSERT ON {schema}.events FOR EACH ROW
    WHEN (jsonb_typeof(NEW.headers) <> 'object' OR octet_length(NEW.headers::text) > 16384)
    EXECUTE FUNCTION {schema}.refuse_headers();

-- ------------------------------------------------------------------------------------- claims
-- What a claim brings is bounded whatever a row has, also one from before. They are inlined.

-- How large headers may be in memory: no compression leaves less than a 255th.
CREATE FUNCTION {schema}.headers_weight(headers jsonb) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT pg_column_size(headers)::bigint * CASE WHEN pg_column_compression(headers) IS NULL THEN 1 ELSE 255 END
$$;

-- Headers that are small; NULL for others, which are read when their rows' turn has come.
CREATE FUNCTION {schema}.light_headers(headers jsonb) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN pg_column_size(headers) <= 1000 AND pg_column_compression(headers) IS NULL THEN headers END
$$;

-- Of a text that no producer may write any more, its beginning.
CREATE FUNCTION {schema}.beginning(given text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(given) <= 2000 THEN given ELSE left(given, 2000) END
$$;

-- --------------------------------------------------------------------------------- privileges

REVOKE EXECUTE ON FUNCTION {schema}.refuse_bytes, {schema}.refuse_long, {schema}.refuse_long_key,
       {schema}.refuse_headers, {schema}.headers_weight, {schema}.light_headers, {schema}.beginning FROM PUBLIC;

-- What became of a row is the worker's to write; what it says is not.
DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        REVOKE UPDATE ON {schema}.events, {schema}.commands FROM {schema}_worker;
        GRANT UPDATE (mode, status, attempts, crashes, run_at, errors, fingerprint, updated_at, place, head)
           ON {schema}.events TO {schema}_worker;
        GRANT UPDATE (priority, status, attempts, crashes, fence, run_at, deadline, worker_id, started_at, line_at,
                      cancel_requested, errors, fingerprint, progress, updated_at)
           ON {schema}.commands TO {schema}_worker;
        GRANT EXECUTE ON FUNCTION {schema}.headers_weight, {schema}.light_headers, {schema}.beginning TO {schema}_worker;
    END IF;
END
$do$;
