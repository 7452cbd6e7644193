-- All rows of a kind, hot and settled, in the order of ids: for tests, whose tables are small.
-- parameters: $1 text type (null: any)
-- returns: row (JSON text: the columns, with kind, lane and the payload, from bodies if it is there)
-- locks: nothing
SELECT (found.row || jsonb_build_object('kind', '{kind}', 'lane', found.row -> '{topic or queue}', 'payload', found.payload))::text
  FROM (SELECT e.id, to_jsonb(e) AS row,
               coalesce(e.payload, (SELECT b.payload FROM {schema}.bodies b
                                     WHERE b.id = e.body_id AND b.created_at = e.body_at)) AS payload
          FROM {schema}.{table} e WHERE $1::text IS NULL OR e.type = $1
        UNION ALL
        SELECT e.id, to_jsonb(e),
               coalesce(e.payload, (SELECT b.payload FROM {schema}.bodies b
                                     WHERE b.id = e.body_id AND b.created_at = e.body_at))
          FROM {schema}.{table}_history e WHERE $1::text IS NULL OR e.type = $1) AS found
 ORDER BY found.id
