-- Insert a receiver, or record its heartbeat, with its state.
-- parameters: $1 uuid id, $2 text name, $3 integer number of the process under its supervisor (null: none),
--             $4 text host, $5 integer pid, $6 text version, $7 text[] sources, $8 text[] those that its settings pause,
--             $9 text state (running, draining, stopped), $10 text[] sources that are spooled, $11 text the error of
--             its spool (null: none)
-- returns: nothing
-- locks: its row
INSERT INTO {schema}.receivers AS r
       (id, name, process, host, pid, version, sources, holds, state, spooled, trouble)
VALUES ($1::uuid, $2, $3::integer, $4, $5::integer, $6, $7::text[], $8::text[], $9, $10::text[], $11)
ON CONFLICT (id) DO UPDATE
   SET sources = excluded.sources, holds = excluded.holds, state = excluded.state, beat_at = clock_timestamp(),
       spooled = excluded.spooled, trouble = excluded.trouble,
       ended_at = CASE WHEN excluded.state = 'stopped' THEN clock_timestamp() END
