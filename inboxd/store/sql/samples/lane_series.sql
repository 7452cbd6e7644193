-- A lane over time, combined into steps; steps in which nothing waited or was dead are left out.
-- parameters: $1 text kind, $2 text topic or queue, $3 text type (null: all; empty: lines of a topic),
--             $4 timestamptz since, $5 timestamptz until (left out), $6 interval of a step
-- returns: at (the beginning of the step), waiting, failed, oldest (seconds): the largest of the step
-- locks: nothing
-- Each hour is one probe, beginning with the oldest one in the table, whatever $4 is.
SELECT date_bin($6::interval, minute.at, $4::timestamptz) AS at, max(minute.waiting) AS waiting,
       max(minute.failed) AS failed, max(minute.oldest) AS oldest
  FROM (SELECT hours.hour + make_interval(mins => t.m::integer - 1) AS at, sum(t.waiting) AS waiting,
               sum(t.failed) AS failed, max(t.oldest) AS oldest
          FROM (SELECT s.hour FROM {schema}.sampled_lanes s ORDER BY s.hour LIMIT 1) first
         CROSS JOIN LATERAL generate_series(greatest(first.hour, date_trunc('hour', $4::timestamptz, 'UTC')),
                                            $5::timestamptz, interval '1 hour') AS hours(hour)
         CROSS JOIN LATERAL (SELECT s.waiting, s.failed, s.oldest FROM {schema}.sampled_lanes s
                              WHERE s.hour = hours.hour AND s.kind = $1 AND s.place = $2 AND s.type = $3::text
                              UNION ALL
                             SELECT s.waiting, s.failed, s.oldest FROM {schema}.sampled_lanes s
                              WHERE $3::text IS NULL AND s.hour = hours.hour AND s.kind = $1 AND s.place = $2) l
         CROSS JOIN LATERAL unnest(l.waiting, l.failed, l.oldest) WITH ORDINALITY AS t(waiting, failed, oldest, m)
         WHERE t.waiting IS NOT NULL
         GROUP BY 1) minute
 WHERE minute.at >= $4::timestamptz AND minute.at < $5::timestamptz
 GROUP BY 1 ORDER BY 1
