-- The meaning of an end for an edge: met; skipped or cancelled (it can never be met any more); NULL (it may still be met).
--
-- A dead letter may be replayed, so an edge that waits for its success may still be met. skipped: it was not needed.
-- called by: hold_in_order, release, send_after
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.edge_verdict(condition text, outcome text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN condition = 'finished' OR condition = outcome THEN 'met'
        WHEN condition = 'succeeded' AND outcome = 'failed' THEN NULL
        WHEN outcome = 'cancelled' THEN 'cancelled'
        ELSE 'skipped'
    END
$$;
