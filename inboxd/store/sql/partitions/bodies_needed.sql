-- Whether a body of a range is needed by an unsettled row, or by one in history that was settled late. In one
-- statement: a row moves from one table to the other in one transaction, so one snapshot sees it.
-- parameters: $1 timestamptz from, $2 timestamptz to (exclusive)
-- returns: boolean
-- locks: nothing
SELECT EXISTS (SELECT FROM {schema}.events WHERE body_at >= $1 AND body_at < $2)
    OR EXISTS (SELECT FROM {schema}.commands WHERE body_at >= $1 AND body_at < $2)
    OR EXISTS (SELECT FROM {schema}.events_history WHERE body_at >= $1 AND body_at < $2
                  AND (finished_at - body_at) > interval '1 day')
    OR EXISTS (SELECT FROM {schema}.commands_history WHERE body_at >= $1 AND body_at < $2
                  AND (finished_at - body_at) > interval '1 day')
