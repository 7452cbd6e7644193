-- Look through settled {table} of one entity, from the highest id down, in days that have the index for it, and return
-- those that match. The row comparison makes this index the only one that gives the order: after an equality, that of the
-- ids would do.
-- parameters: each null for any: $1 text type, $2 text[] statuses, $3 text tenant, $4 text {topic or queue},
--             $5 timestamptz created since, $6 timestamptz until (settled before; of unsettled rows: created),
--             $7 text in the newest error, $8 jsonb[], one of which the payload contains,
--             $9 text entity_type, $10 text entity_id, $11 text[] statuses, one of which a command of the event has,
--             $12 text what $5 and $6 refer to instead: ended, failed, done, waiting (null: as stated there);
--             then $13 bigint ids below, $14 integer rows to look at, $15 integer rows to return
--             $16 and $17 timestamptz the days that are read (from, to)
-- returns: one row: looked (how many rows), high, low (the highest and the lowest id looked at, null: none),
--          low_created_at, ended (the earliest finished_at looked at), blocks (about how many were read), ids
--          (of the rows that match, descending), finished (their finished_at)
-- locks: nothing
WITH looked AS MATERIALIZED (
    SELECT r.id, r.created_at, r.finished_at, (r.place::text::point)[0] AS block,
           coalesce({matching {kind}}, false) AS hit
      FROM (SELECT {looked {kind} h}, h.finished_at, h.ctid AS place FROM {schema}.{table}_history h
             WHERE (h.entity_type, h.entity_id, h.id + 0) < ($9::text, $10::text, $13::bigint)
               AND (h.entity_type, h.entity_id, h.id + 0) >= ($9::text, $10::text, 0)
               AND h.finished_at >= $16::timestamptz AND h.finished_at < $17::timestamptz
             ORDER BY h.entity_type DESC, h.entity_id DESC, h.id + 0 DESC LIMIT $14::integer) r
)
{seen by id}
