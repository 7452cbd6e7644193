-- The largest id that the sequence has given out.
-- parameters: none
-- returns: newest (0: none yet)
-- locks: nothing
SELECT coalesce(pg_sequence_last_value('{schema}.events_id_seq'), 0) AS newest
