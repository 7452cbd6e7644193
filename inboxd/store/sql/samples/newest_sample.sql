-- The newest sample, unless it is the known one.
-- parameters: $1 timestamptz of the known one (null: none)
-- returns: at, age (seconds; if it is in the future, since the clock was set back: its distance, so that it does not count
--          as fresh), counts; or no row
-- locks: nothing
SELECT at, abs(extract(epoch FROM clock_timestamp() - at))::double precision AS age, counts
  FROM {schema}.newest_sample WHERE id AND at IS DISTINCT FROM $1::timestamptz
