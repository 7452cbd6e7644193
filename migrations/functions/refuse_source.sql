-- Refuse a producer's event that names a source of a receiver or a reader: it would take dedup keys of events still to
-- come.
-- called by: trigger events_above_source
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.refuse_source() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    IF EXISTS (SELECT FROM {schema}.received_sources r WHERE r.source = NEW.source)
       OR EXISTS (SELECT FROM {schema}.stream_positions p WHERE p.source = NEW.source) THEN
        RAISE EXCEPTION 'the source % is received by receivers or workers: producers write no events of it', quote_literal(NEW.source)
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Give the event another source; or grant {schema}_receiver to this login, if it is the receiver''s.';
    END IF;
    RETURN NEW;
END
$$;
