-- New rows take their predecessors' places: what waited for one of those waits for its successor, and a
-- step's name goes on to it. After replay_commands, in the same transaction: whoever adds an edge to a row
-- locks the row first, so all edges are seen.
-- parameters: $1 uuid[] old command_ids, $2 uuid[] new command_ids
-- returns: nothing
-- locks: the edges and steps
WITH moved AS (
    SELECT * FROM unnest($1::uuid[], $2::uuid[]) AS m(old, new)
), needed AS (
    UPDATE {schema}.dependencies d SET needs = m.new FROM moved m WHERE d.needs BETWEEN m.old AND m.old
), needing AS (
    UPDATE {schema}.dependencies d SET waiting = m.new FROM moved m WHERE d.waiting BETWEEN m.old AND m.old
)
UPDATE {schema}.steps s SET member = m.new FROM moved m WHERE s.member BETWEEN m.old AND m.old
