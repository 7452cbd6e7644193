-- Count a crash before an event is run alone, so that poison that kills the process is found.
-- parameters: $1 bigint id
-- returns: crashes, counted with this one; nothing when the row is gone
-- locks: the row (held already)
UPDATE {schema}.events SET crashes = crashes + 1 WHERE id = $1 RETURNING crashes
