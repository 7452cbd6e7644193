-- Keep an open batch from being closed until this transaction ends, and count its new members.
-- parameters: $1 uuid batch, $2 bigint members that this transaction adds
-- returns: id, waits (its members have to wait as well); it raises if no members may be added
-- locks: the batch FOR KEY SHARE
WITH held AS MATERIALIZED (
    SELECT id, status FROM {schema}.hold_open_batch($1::uuid)
), noted AS (
    INSERT INTO {schema}.batch_progress (batch_id, size) SELECT id, $2::bigint FROM held
)
SELECT id, status = 'waiting' AS waits FROM held
