-- Add an endpoint; a trigger notifies workers.
-- parameters: $1 text name, $2 text url, $3 text[] types, $4 text secret, $5 text tenant (null: all),
--   $6 boolean ordered, $7 text rate (null: none), $8 integer concurrency (null: no bound), $9 interval disable after,
--   $10 boolean: emitted events are delivered to it, too
-- returns: name; no row if the name is taken
-- locks: the new row
INSERT INTO {schema}.endpoints (name, url, types, secrets, tenant, ordered, rate, concurrency, disable_after, events)
VALUES ($1, $2, $3::text[],
        jsonb_build_array(jsonb_build_object('secret', $4::text, 'created_at', clock_timestamp())),
        $5, $6, $7, $8, $9::interval, $10)
    ON CONFLICT (name) DO NOTHING
RETURNING name
