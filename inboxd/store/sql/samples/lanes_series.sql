-- All lanes minute by minute, from the hour on in which a time is: for small charts beside each other.
-- parameters: $1 timestamptz since, within the last hours: each reads all lanes that samples have
-- returns: hour, kind, place, type, waiting, failed, oldest (integer[], an element a minute)
-- locks: nothing
SELECT hour, kind, place, type, waiting, failed, oldest
  FROM {schema}.sampled_lanes WHERE hour >= date_trunc('hour', $1::timestamptz, 'UTC') ORDER BY hour, kind, place, type
