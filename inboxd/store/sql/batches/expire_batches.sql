-- Mark abandoned open batches as expired: their expires_at has passed, and they accept no more members.
-- parameters: none
-- returns: id, batch_id, name, size, expires_at of each
-- locks: the rows; those that another transaction adds to or folds are skipped until the next call
UPDATE {schema}.batches b
   SET expired_at = clock_timestamp(), updated_at = clock_timestamp()
  FROM (SELECT id FROM {schema}.batches
         WHERE closed_at IS NULL AND expires_at <= statement_timestamp() AND expired_at IS NULL
         ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED) AS due
 WHERE b.id BETWEEN due.id AND due.id
RETURNING b.id, b.batch_id, b.name, b.size, b.expires_at
