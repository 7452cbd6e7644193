-- Disable the endpoints that no living worker's settings have had for an hour; a trigger notifies workers.
-- parameters: none
-- returns: name of each
-- locks: the rows
UPDATE {schema}.endpoints
   SET enabled = false, disabled_at = clock_timestamp(), disabled_by = 'settings',
       disabled_reason = 'no worker''s settings have it any more', version = version + 1, changed_at = clock_timestamp()
 WHERE enabled AND undeclared_at < clock_timestamp() - interval '1 hour'
RETURNING name
