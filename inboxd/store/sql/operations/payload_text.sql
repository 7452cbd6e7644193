-- The stored payload of a command as text: numbers keep all digits.
-- parameters: $1 bigint id, $2 integer: the most bytes of a text
-- returns: text (null: it is larger); no row if the command does not exist
-- locks: nothing
SELECT CASE WHEN octet_length(drawn.text) <= $2 THEN drawn.text END AS text
  FROM (SELECT (CASE WHEN coalesce(stored.bytes, pg_column_size(stored.payload)) <= 4 * $2 THEN stored.payload END)::text AS text
          FROM (SELECT c.body_bytes AS bytes,
                       coalesce({content jsonb: c.payload}, {content jsonb: (SELECT b.payload FROM {schema}.bodies b
                                                 WHERE b.id = c.body_id AND b.created_at = c.body_at)}) AS payload
                  FROM {schema}.commands c WHERE c.id = $1 OFFSET 0) AS stored OFFSET 0) AS drawn
