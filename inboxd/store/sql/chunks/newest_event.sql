-- The largest id that was drawn so far.
-- parameters: none
-- returns: newest (0: none was)
-- locks: nothing
SELECT coalesce(pg_sequence_last_value('{schema}.events_id_seq'), 0) AS newest
