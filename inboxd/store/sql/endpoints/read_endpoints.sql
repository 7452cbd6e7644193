-- All endpoints for workers, with the secrets that sign now, newest first.
-- parameters: none
-- returns: name, url, secrets, ordered, rate, concurrency, enabled, failing (seconds; null: it is not), succeeded (seconds
--   since the last recorded success), disable_after (seconds), version
-- locks: nothing
SELECT name, url,
       ARRAY(SELECT s.value ->> 'secret' FROM jsonb_array_elements(secrets) WITH ORDINALITY AS s(value, place)
              WHERE s.value ->> 'expires_at' IS NULL
                 OR (s.value ->> 'expires_at')::timestamptz > clock_timestamp()
              ORDER BY s.place) AS secrets,
       ordered, rate, concurrency, enabled,
       extract(epoch FROM statement_timestamp() - failing_since)::float8 AS failing,
       extract(epoch FROM statement_timestamp() - last_success_at)::float8 AS succeeded,
       extract(epoch FROM disable_after)::float8 AS disable_after, version
  FROM {schema}.endpoints
