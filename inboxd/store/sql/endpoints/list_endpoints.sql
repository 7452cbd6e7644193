-- Endpoints for operators, without their secrets, by name.
-- parameters: $1 text name (null: all), $2 text after this name (null: from the first on), $3 integer rows (null: all)
-- returns: name, url, types, tenant, ordered, events, rate, concurrency, disable_after, managed_by, undeclared_at, enabled,
--   disabled_at, disabled_by, disabled_reason, failing_since, last_success_at, last_failure_at, last_failure,
--   last_status, secrets (how many sign now), secret_created_at (of the newest), secret_expires_at (of the oldest that
--   still signs; null: it does not expire), created_at, changed_at
-- locks: nothing
SELECT e.name, {content text: e.url} AS url, e.types, e.tenant, e.ordered, e.events, e.rate, e.concurrency, e.disable_after, e.managed_by,
       e.undeclared_at, e.enabled, e.disabled_at, e.disabled_by, e.disabled_reason, e.failing_since, e.last_success_at,
       e.last_failure_at, {content text: e.last_failure} AS last_failure, e.last_status, {secret integer: s.secrets} AS secrets, s.secret_created_at, s.secret_expires_at,
       e.created_at, e.changed_at
  FROM {schema}.endpoints e
 CROSS JOIN LATERAL (
       SELECT count(*)::integer AS secrets, max((value ->> 'created_at')::timestamptz) AS secret_created_at,
              min((value ->> 'expires_at')::timestamptz) AS secret_expires_at
         FROM jsonb_array_elements({secret jsonb: e.secrets})
        WHERE value ->> 'expires_at' IS NULL OR (value ->> 'expires_at')::timestamptz > clock_timestamp()) AS s
 WHERE e.name > coalesce($2::text, '') AND ($1::text IS NULL OR e.name = $1)
 ORDER BY e.name LIMIT $3::integer
