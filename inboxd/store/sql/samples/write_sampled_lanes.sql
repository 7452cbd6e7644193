-- Write a minute of lanes into the rows of its hour.
-- parameters: $1 timestamptz of the sample; arrays: $2 text[] kinds, $3 text[] places, $4 text[] types,
--             $5 integer[] waiting, $6 integer[] failed, $7 integer[] seconds of the oldest
-- returns: nothing
-- locks: the rows
INSERT INTO {schema}.sampled_lanes AS old (hour, kind, place, type, waiting, failed, oldest)
SELECT date_trunc('hour', $1::timestamptz, 'UTC'), kind, place, type, earlier.none || waiting, earlier.none || failed,
       earlier.none || oldest
  FROM unnest($2::text[], $3::text[], $4::text[], $5::integer[], $6::integer[], $7::integer[])
       AS t(kind, place, type, waiting, failed, oldest)
 CROSS JOIN (SELECT array_fill(NULL::integer, ARRAY[extract(minute FROM $1::timestamptz AT TIME ZONE 'UTC')::integer]) AS none) earlier
ON CONFLICT (hour, kind, place, type) DO UPDATE
   SET waiting[extract(minute FROM $1::timestamptz AT TIME ZONE 'UTC')::integer + 1]
           = excluded.waiting[extract(minute FROM $1::timestamptz AT TIME ZONE 'UTC')::integer + 1],
       failed[extract(minute FROM $1::timestamptz AT TIME ZONE 'UTC')::integer + 1]
           = excluded.failed[extract(minute FROM $1::timestamptz AT TIME ZONE 'UTC')::integer + 1],
       oldest[extract(minute FROM $1::timestamptz AT TIME ZONE 'UTC')::integer + 1]
           = excluded.oldest[extract(minute FROM $1::timestamptz AT TIME ZONE 'UTC')::integer + 1]
