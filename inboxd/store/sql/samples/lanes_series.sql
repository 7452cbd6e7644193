-- All lanes per minute, beginning with the hour of a time: for small charts beside each other.
-- parameters: $1 timestamptz since, within the last hours: each hour has all sampled lanes
-- returns: hour, kind, place, type, waiting, failed, oldest (integer[], an element a minute)
-- locks: nothing
SELECT hour, kind, place, type, waiting, failed, oldest
  FROM {schema}.sampled_lanes WHERE hour >= date_trunc('hour', $1::timestamptz, 'UTC') ORDER BY hour, kind, place, type
