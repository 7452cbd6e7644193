-- Record that a failure group is archived, with its current state.
-- parameters: $1 text kind, $2 text fingerprint, $3 text actor, $4 text reason (null: none), $5 bigint dead letters it has,
--             $6 bigint the newest of them
-- returns: nothing
-- locks: its row
INSERT INTO {schema}.archived_failures AS old (kind, fingerprint, actor, reason, count, last_id)
VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (kind, fingerprint) DO UPDATE
   SET archived_at = clock_timestamp(), actor = excluded.actor, reason = excluded.reason, count = excluded.count,
       last_id = excluded.last_id
