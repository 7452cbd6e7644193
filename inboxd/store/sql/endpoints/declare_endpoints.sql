-- Declare the endpoints of a worker's settings; a trigger notifies workers. An endpoint that was disabled because no
-- settings had it is enabled, as if it had never failed; an endpoint that was disabled by an operator or for its
-- failures stays disabled. Failures of a former URL no longer count. Rows of operators are left alone.
-- parameters: $1 text a JSON array of objects: name, url, types, tenant, secrets (texts), ordered, events, rate, concurrency,
--   disable_after (an interval)
-- returns: nothing
-- locks: the rows that change
INSERT INTO {schema}.endpoints AS old
       (name, url, types, tenant, secrets, ordered, events, rate, concurrency, disable_after, managed_by)
SELECT g.name, g.url, g.types, g.tenant,
       (SELECT jsonb_agg(jsonb_build_object('secret', s.secret, 'created_at', clock_timestamp()) ORDER BY s.place)
          FROM unnest(g.secrets) WITH ORDINALITY AS s(secret, place)),
       g.ordered, coalesce(g.events, false), g.rate, g.concurrency, g.disable_after, 'settings'
  FROM jsonb_to_recordset($1::text::jsonb)
       AS g(name text, url text, types text[], tenant text, secrets text[], ordered boolean, events boolean, rate text,
            concurrency integer, disable_after interval)
 ORDER BY g.name
    ON CONFLICT (name) DO UPDATE
   SET url = excluded.url, types = excluded.types, tenant = excluded.tenant, ordered = excluded.ordered, events = excluded.events,
       rate = excluded.rate, concurrency = excluded.concurrency, disable_after = excluded.disable_after,
       secrets = CASE WHEN jsonb_path_query_array(old.secrets, '$[*].secret')
                           = jsonb_path_query_array(excluded.secrets, '$[*].secret')
                      THEN old.secrets ELSE excluded.secrets END,
       enabled = old.enabled OR old.disabled_by = 'settings',
       disabled_at = CASE WHEN old.disabled_by <> 'settings' THEN old.disabled_at END,
       disabled_reason = CASE WHEN old.disabled_by <> 'settings' THEN old.disabled_reason END,
       disabled_by = CASE WHEN old.disabled_by <> 'settings' THEN old.disabled_by END,
       failing_since = CASE WHEN old.url = excluded.url AND old.disabled_by IS DISTINCT FROM 'settings'
                            THEN old.failing_since END,
       undeclared_at = NULL, version = old.version + 1, changed_at = clock_timestamp()
 WHERE old.managed_by = 'settings'
   AND ((old.url, old.types, old.tenant, old.ordered, old.events, old.rate, old.concurrency, old.disable_after,
         jsonb_path_query_array(old.secrets, '$[*].secret'), old.undeclared_at, old.disabled_by = 'settings')
        IS DISTINCT FROM
        (excluded.url, excluded.types, excluded.tenant, excluded.ordered, excluded.events, excluded.rate, excluded.concurrency,
         excluded.disable_after, jsonb_path_query_array(excluded.secrets, '$[*].secret'), NULL::timestamptz,
         CASE WHEN old.disabled_by IS NOT NULL THEN false END))
