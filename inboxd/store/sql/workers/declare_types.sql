-- Declare the types of a worker: queues, retry rules, titles and secret keys; sorted, since otherwise two workers that
-- start together would deadlock on each other's rows.
-- parameters: arrays: $1 text[] kinds, $2 text[] types, $3 text[] queues, $4 text[] retry rules (JSON),
--             $5 text[] titles, $6 text[] descriptions, $7 text[] secret keys (JSON)
-- returns: nothing
-- locks: the rows that change
INSERT INTO {schema}.declared_types AS old (kind, type, queue, retry, title, description, secret_keys)
SELECT kind, type, queue, retry::jsonb, title, description,
       ARRAY(SELECT jsonb_array_elements_text(secret_keys::jsonb))
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
       AS t(kind, type, queue, retry, title, description, secret_keys)
 ORDER BY kind, type
ON CONFLICT (kind, type) DO UPDATE
   SET queue = excluded.queue, retry = excluded.retry, title = excluded.title, description = excluded.description,
       secret_keys = excluded.secret_keys, declared_at = now()
 WHERE (old.queue, old.retry, old.title, old.description, old.secret_keys)
       IS DISTINCT FROM (excluded.queue, excluded.retry, excluded.title, excluded.description, excluded.secret_keys)
