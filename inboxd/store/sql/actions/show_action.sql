-- One bulk action.
-- parameters: $1 bigint id
-- returns: the action, without goes_on_as; selection and note: null where they are withheld; or nothing
-- locks: nothing
SELECT id, kind, verb, run_at, priority, {content jsonb: a.selection} AS selection, tenants, actor, reason, status,
       {content text: a.note} AS note, starts_at, rate, canary, above, first_id, last_id, counted, whole, done, left_out,
       audit_id, created_at, began_at, ended_at
  FROM {schema}.actions a WHERE id = $1
