-- Delete the records of archived failure groups that have no dead letters left: one probe for each.
-- parameters: none
-- returns: nothing
-- locks: those rows
DELETE FROM {schema}.archived_failures a
 WHERE CASE a.kind
           WHEN 'event' THEN (SELECT e.id FROM {schema}.events e
                               WHERE e.status || '' = 'failed' AND e.fingerprint = a.fingerprint
                               ORDER BY e.fingerprint, e.type, e.id LIMIT 1)
           ELSE (SELECT c.id FROM {schema}.commands c
                  WHERE c.status || '' = 'failed' AND c.fingerprint = a.fingerprint
                  ORDER BY c.fingerprint, c.type, c.id LIMIT 1) END IS NULL
