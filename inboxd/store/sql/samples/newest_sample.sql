-- The newest sample, if it is another one than is known.
-- parameters: $1 timestamptz of the one that is known (null: none)
-- returns: at, age (seconds; of one that lies ahead, since the clock was set back: how far, so that it is not taken for
--          fresh), counts; or no row
-- locks: nothing
SELECT at, abs(extract(epoch FROM clock_timestamp() - at))::double precision AS age, counts
  FROM {schema}.newest_sample WHERE id AND at IS DISTINCT FROM $1::timestamptz
