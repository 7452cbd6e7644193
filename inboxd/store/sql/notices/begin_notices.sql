-- Begin notices of causes that have no open one, in their order; a notice whose cause was gone briefly goes on.
-- parameters: arrays, one entry a cause: $1 text[] causes, $2 text[] kinds, $3 text[] subjects; $4 int most open notices
-- returns: id, cause, kind, subject, began_at of each that begins
-- locks: the new rows, and those whose cause is back; two leaders wait for each other
WITH found(cause, kind, subject, place) AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY
), back AS (
    UPDATE {schema}.notices n SET gone_at = NULL
      FROM found f
     WHERE n.ended_at IS NULL AND n.gone_at IS NOT NULL
       AND (n.cause, n.kind, n.subject) = (f.cause, f.kind, f.subject)
)
INSERT INTO {schema}.notices (cause, kind, subject)
SELECT f.cause, f.kind, f.subject
  FROM found f
 WHERE NOT EXISTS (SELECT FROM {schema}.notices n
                    WHERE n.ended_at IS NULL AND (n.cause, n.kind, n.subject) = (f.cause, f.kind, f.subject))
 ORDER BY f.place
 LIMIT greatest(0, $4 - (SELECT count(*) FROM {schema}.notices WHERE ended_at IS NULL))
ON CONFLICT (cause, kind, subject) WHERE ended_at IS NULL DO NOTHING
RETURNING id, cause, kind, subject, began_at
