-- Whether the errors of a settled row say that its contents were erased (inboxd/operations/erase.py writes that).
-- called by: trim_partition, the daemon
-- roles: worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.is_erased(errors jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(errors -> 0 ->> 'error'::text = 'Erased: what this row said was erased', false)
$$;
