-- Bulk actions, the newest first.
-- parameters: $1 text[] tenants: only actions that are limited to some of these (null: all), $2 bigint ids below (null:
--             from the newest), $3 integer limit
-- returns: each, without goes_on_as; selection and note: null where they are withheld
-- locks: nothing
SELECT id, kind, verb, run_at, priority, {content jsonb: a.selection} AS selection, tenants, actor, reason, status,
       {content text: a.note} AS note, starts_at, rate, canary, above, first_id, last_id, counted, whole, done, left_out,
       audit_id, created_at, began_at, ended_at
  FROM {schema}.actions a
 WHERE ($1::text[] IS NULL OR a.tenants <@ $1) AND id < coalesce($2::bigint, 9223372036854775807)
 ORDER BY id DESC LIMIT $3
