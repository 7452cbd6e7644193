-- Give an endpoint a new secret; the old ones sign for some time longer; a trigger notifies workers.
-- parameters: $1 text name, $2 text secret, $3 interval for which the old ones sign (0: not at all),
--   $4 timestamptz: only if it last changed then (null: in any case)
-- returns: name; no row if the endpoint does not exist, or it last changed at another time
-- locks: the row
UPDATE {schema}.endpoints
   SET secrets = jsonb_build_array(jsonb_build_object('secret', $2::text, 'created_at', clock_timestamp()))
                 || coalesce((
                    SELECT jsonb_agg(old.value || jsonb_build_object('expires_at',
                                         least((old.value ->> 'expires_at')::timestamptz,
                                               clock_timestamp() + $3::interval)) ORDER BY old.place)
                      FROM (SELECT s.value, s.place
                              FROM jsonb_array_elements(secrets) WITH ORDINALITY AS s(value, place)
                             WHERE $3::interval > '0'
                               AND (s.value ->> 'expires_at' IS NULL
                                    OR (s.value ->> 'expires_at')::timestamptz > clock_timestamp())
                             ORDER BY s.place LIMIT 4) AS old), '[]'),
       version = version + 1, changed_at = clock_timestamp()
 WHERE name = $1 AND ($4::timestamptz IS NULL OR changed_at = $4)
RETURNING name
