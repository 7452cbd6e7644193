-- Look through settled {table}, from the highest id down, and return those that match. The limit counts the rows that
-- are looked at, not the matches: a rare match costs no more than a common one.
-- parameters: each null for any: $1 text type, $2 text[] statuses, $3 text tenant, $4 text {topic or queue},
--             $5 timestamptz created since, $6 timestamptz until (settled before; of unsettled rows: created),
--             $7 text in the newest error, $8 jsonb[], one of which the payload contains,
--             $9 text entity_type, $10 text entity_id, $11 text[] statuses, one of which a command of the event has,
--             $12 text what $5 and $6 refer to instead: ended, failed, done, waiting (null: as stated there);
--             then $13 bigint ids below, $14 integer rows to look at, $15 integer rows to return
--             $16 and $17 timestamptz the days that are read (from, to), $18 and $19 timestamptz days among them
--             that are left out (from, to), $20 and $21 others
-- returns: one row: looked (how many rows), high, low (the highest and the lowest id looked at, null: none),
--          low_created_at, ended (the earliest finished_at looked at), blocks (about how many were read), ids
--          (of the rows that match, descending), finished (their finished_at)
-- locks: nothing
WITH looked AS MATERIALIZED (
    SELECT r.id, r.created_at, r.finished_at, (r.place::text::point)[0] AS block,
           coalesce({matching {kind}}, false) AS hit
      FROM (SELECT {looked {kind} h}, h.finished_at, h.ctid AS place FROM {schema}.{table}_history h
             WHERE h.id < $13::bigint AND h.finished_at >= $16::timestamptz AND h.finished_at < $17::timestamptz
               AND (h.finished_at < $18::timestamptz OR h.finished_at >= $19::timestamptz)
               AND (h.finished_at < $20::timestamptz OR h.finished_at >= $21::timestamptz)
             ORDER BY h.id DESC LIMIT $14::integer) r
)
{seen by id}
