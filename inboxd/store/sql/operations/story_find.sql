-- The rows of a story with this uuid or this id: of several with the same uuid (which was used again after the first row
-- was settled), the unsettled or newest one.
-- parameters: $1 uuid (null: by number), $2 bigint number
-- returns: rows of the view story
-- locks: nothing
(SELECT * FROM (SELECT {story of s} FROM {schema}.story s WHERE uuid = $1::uuid OFFSET 0) each ORDER BY hot DESC, id DESC LIMIT 1)
UNION ALL
SELECT {story of s} FROM {schema}.story s WHERE $1::uuid IS NULL AND id = $2::bigint
