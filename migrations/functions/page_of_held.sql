-- One page of a source's held receipts behind the position `past`: their positions, the oldest first. whole: the page has
-- all of them. It has at most `most` receipts and ends with the one that has its 5,000th event; later receipts are not
-- read, since arrays of events may be large.
-- called by: release_receipts
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.page_of_held(
    of_source text, past bigint, most integer, OUT places bigint[], OUT whole boolean
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    held   record;
    events bigint := 0;
BEGIN
    places := '{}';
    FOR held IN
        SELECT r.position, jsonb_array_length(r.events) AS events FROM {schema}.held_receipts r
         WHERE r.source = of_source AND r.position > past ORDER BY r.position LIMIT most
    LOOP
        IF events >= 5000 THEN
            whole := false;
            RETURN;
        END IF;
        places := places || held.position;
        events := events + held.events;
    END LOOP;
    whole := cardinality(places) < most;
END
$$;
