-- JSON that a person typed, in the text form in which it would be stored.
-- parameters: $1 text, $2 integer: the most bytes of a text
-- returns: text (null: it is larger)
-- locks: nothing
SELECT CASE WHEN octet_length(drawn.text) <= $2 THEN drawn.text END AS text
  FROM (SELECT $1::text::jsonb::text AS text OFFSET 0) AS drawn
