-- Add a schedule for an operator.
-- parameters: $1 timestamptz next time, $2 text payload (JSON), then one for each other field of a schedule (`Schedule`),
--             in their order; its source is the operator
-- returns: id; no row if the name is taken
-- locks: the new row
INSERT INTO {schema}.schedules
       (next_at, payload, {each field schedule but payload: NAME}, added_at)
VALUES ($1, $2::text::jsonb, {each field schedule but payload: $NUMBER+3}, clock_timestamp())
ON CONFLICT (name) DO NOTHING
RETURNING id
