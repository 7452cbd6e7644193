-- Delete the keys in a range of blocks whose window is over: the longer one of the topic's and the source's.
-- parameters: $1 bigint first block, $2 bigint block after the last, $3 interval default window, arrays:
--             $4 text[] topics, $5 interval[] their windows, $6 text[] sources, $7 interval[] their windows
-- returns: the number of keys
-- locks: the rows, while the statement runs; producers of such a key wait for it
WITH gone AS (
    DELETE FROM {schema}.dedup
     WHERE ctid = ANY (ARRAY(
           SELECT d.ctid FROM {schema}.dedup d
             LEFT JOIN unnest($4::text[], $5::interval[]) AS t(topic, keep) ON t.topic = d.topic
             LEFT JOIN unnest($6::text[], $7::interval[]) AS s(source, keep) ON s.source = d.source
            WHERE d.ctid >= format('(%s,0)', $1::bigint)::tid AND d.ctid < format('(%s,0)', $2::bigint)::tid
              AND d.seen_at < now() - coalesce(greatest(t.keep, s.keep), $3::interval)))
    RETURNING 1
)
SELECT count(*) FROM gone
