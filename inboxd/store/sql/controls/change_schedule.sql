-- Change a schedule that an operator added, in the transaction that holds it.
-- parameters: $1 bigint id, $2 timestamptz next time, $3 text payload (JSON), then one for each other field of a schedule
--             (`Schedule`) but its name, source, kind and type, in their order
-- returns: nothing
-- locks: the row (held already)
UPDATE {schema}.schedules
   SET next_at = $2, payload = $3::text::jsonb, updated_at = clock_timestamp(),
       {each field schedule but name, source, kind, type, payload: NAME = $NUMBER+4}
 WHERE id = $1
