-- Dead letters as groups of equal failures: fingerprint and type, counted by an index alone, each up to a limit; with the
-- error of the newest one of each group. Each step to the next pair of fingerprint and type is one descent of the index.
-- parameters: $1 text fingerprint (null: all), $2 integer limit of the pairs, of which those without a fingerprint come
--             first, $3 integer rows of a pair that are counted,
--             $4 integer rows that all pairs share: each pair an equal part, and the largest ones the rest
-- returns: kind, fingerprint, type, count, counted_to (where counting stopped: from there on, count is the least number),
--          first_at, last_at, first_id, last_id, error (of the newest); of the whole group
--          at the time when it was archived, null if it was not: archived_at, archived_by, archived_because,
--          archived_count, archived_last_id
-- locks: nothing
WITH RECURSIVE named(fingerprint, type, first_id, first_at) AS (
    (SELECT h.fingerprint, h.type, h.id, h.updated_at FROM {schema}.{table} h
      WHERE h.status || '' = 'failed' AND h.fingerprint >= coalesce($1::text, '')
      ORDER BY h.fingerprint, h.type, h.id LIMIT 1)
    UNION ALL
    SELECT following.*
      FROM named
     CROSS JOIN LATERAL (
         SELECT h.fingerprint, h.type, h.id, h.updated_at FROM {schema}.{table} h
          WHERE h.status || '' = 'failed' AND (h.fingerprint, h.type) > (named.fingerprint, named.type)
          ORDER BY h.fingerprint, h.type, h.id LIMIT 1) following
     WHERE $1::text IS NULL OR following.fingerprint = $1
), unnamed(type, first_id, first_at) AS (
    (SELECT h.type, h.id, h.updated_at FROM {schema}.{table} h
      WHERE h.status || '' = 'failed' AND h.fingerprint IS NULL AND $1::text IS NULL
      ORDER BY h.fingerprint, h.type, h.id LIMIT 1)
    UNION ALL
    SELECT following.*
      FROM unnamed
     CROSS JOIN LATERAL (
         SELECT h.type, h.id, h.updated_at FROM {schema}.{table} h
          WHERE h.status || '' = 'failed' AND h.fingerprint IS NULL AND h.type > unnamed.type
          ORDER BY h.fingerprint, h.type, h.id LIMIT 1) following
), pair(fingerprint, type, first_id, first_at) AS MATERIALIZED (
    SELECT * FROM (SELECT NULL, * FROM unnamed UNION ALL SELECT * FROM named) every(fingerprint)
     WHERE $1::text IS NULL OR fingerprint = $1 LIMIT $2
), share(counted_to) AS MATERIALIZED (
    SELECT greatest(1, least($3::integer, $4::integer / greatest(1, count(*)))) FROM pair
), counted AS MATERIALIZED (
    SELECT pair.*, counted.count
      FROM share CROSS JOIN pair
     CROSS JOIN LATERAL (
         SELECT count(*) AS count
           FROM ((SELECT FROM {schema}.{table} h
                   WHERE h.status || '' = 'failed' AND h.fingerprint = pair.fingerprint
                     AND (h.type, h.id) >= (pair.type, pair.first_id) AND (h.type, h.id) <= (pair.type, 9223372036854775807)
                   ORDER BY h.fingerprint, h.type, h.id LIMIT share.counted_to)
                 UNION ALL
                 (SELECT FROM {schema}.{table} h
                   WHERE h.status || '' = 'failed' AND h.fingerprint IS NULL AND pair.fingerprint IS NULL
                     AND (h.type, h.id) >= (pair.type, pair.first_id) AND (h.type, h.id) <= (pair.type, 9223372036854775807)
                   ORDER BY h.fingerprint, h.type, h.id LIMIT share.counted_to)) few) counted
), larger(counted_to, again) AS MATERIALIZED (
    -- The rows that small pairs leave over, shared by those that reached their part: these are counted again.
    SELECT l.counted_to, CASE WHEN l.counted_to > share.counted_to THEN l.counted_to ELSE 0 END
      FROM share
     CROSS JOIN LATERAL (
         SELECT least($3::bigint, share.counted_to + greatest(0, $4 - coalesce(sum(c.count), 0))::bigint
                      / greatest(1, count(*) FILTER (WHERE c.count >= share.counted_to))) AS counted_to
           FROM counted c) l
)
SELECT '{kind}' AS kind, pair.fingerprint, pair.type, greatest(pair.count, counted.count) AS count, larger.counted_to,
       pair.first_at, l.updated_at AS last_at, pair.first_id, l.id AS last_id, l.error, a.archived_at,
       a.actor AS archived_by, a.reason AS archived_because, a.count AS archived_count, a.last_id AS archived_last_id
  FROM share CROSS JOIN larger CROSS JOIN counted pair
 CROSS JOIN LATERAL (
     SELECT count(*) AS count
       FROM ((SELECT FROM {schema}.{table} h
               WHERE h.status || '' = 'failed' AND h.fingerprint = pair.fingerprint
                 AND (h.type, h.id) >= (pair.type, pair.first_id) AND (h.type, h.id) <= (pair.type, 9223372036854775807)
               ORDER BY h.fingerprint, h.type, h.id LIMIT CASE WHEN pair.count >= share.counted_to THEN larger.again ELSE 0 END)
             UNION ALL
             (SELECT FROM {schema}.{table} h
               WHERE h.status || '' = 'failed' AND h.fingerprint IS NULL AND pair.fingerprint IS NULL
                 AND (h.type, h.id) >= (pair.type, pair.first_id) AND (h.type, h.id) <= (pair.type, 9223372036854775807)
               ORDER BY h.fingerprint, h.type, h.id LIMIT CASE WHEN pair.count >= share.counted_to THEN larger.again ELSE 0 END)) few) counted
 CROSS JOIN LATERAL (
     (SELECT h.id, h.updated_at, {content text: left(h.errors -> -1 ->> 'error', 1000)} AS error FROM {schema}.{table} h
       WHERE h.status || '' = 'failed' AND h.fingerprint = pair.fingerprint
         AND (h.type, h.id) >= (pair.type, pair.first_id) AND (h.type, h.id) <= (pair.type, 9223372036854775807)
       ORDER BY h.fingerprint DESC, h.type DESC, h.id DESC LIMIT 1)
     UNION ALL
     (SELECT h.id, h.updated_at, {content text: left(h.errors -> -1 ->> 'error', 1000)} FROM {schema}.{table} h
       WHERE h.status || '' = 'failed' AND h.fingerprint IS NULL AND pair.fingerprint IS NULL
         AND (h.type, h.id) >= (pair.type, pair.first_id) AND (h.type, h.id) <= (pair.type, 9223372036854775807)
       ORDER BY h.fingerprint DESC, h.type DESC, h.id DESC LIMIT 1)) l
  LEFT JOIN {schema}.archived_failures a ON a.kind = '{kind}' AND a.fingerprint = pair.fingerprint
 ORDER BY greatest(pair.count, counted.count) DESC, pair.fingerprint, pair.type
