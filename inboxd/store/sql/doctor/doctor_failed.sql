-- How many rows became dead letters lately, by kind.
-- parameters: $1 integer minutes
-- returns: kind, failed
-- locks: nothing
SELECT kind, sum(count)::bigint AS failed FROM {schema}.stats
 WHERE minute >= now() - make_interval(mins => $1) AND outcome = 'failed' GROUP BY kind
