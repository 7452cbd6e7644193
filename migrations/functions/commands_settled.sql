-- Record in batch_progress how members ended, and release rows that waited for ended commands.
--
-- Cancelled without a request is skipped (release), or has expired, which counts as cancelled; dismissed was a dead letter
-- before, and failed is one that a replay has replaced: both were counted as failed. No grouping is needed if all are
-- members of one batch and succeeded, as nearly always, and as for each command that settles in its own transaction.
-- called by: trigger commands_settled
-- roles: none
-- locks: the new rows; what release locks
CREATE OR REPLACE FUNCTION {schema}.commands_settled() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    all_of record;
BEGIN
    SELECT count(*) AS rows, count(*) FILTER (WHERE status = 'succeeded') AS succeeded,
           count(batch_id) AS members, min(batch_id) AS batch, max(batch_id) AS last_batch,
           array_agg(command_id) FILTER (WHERE awaited IS NOT false AND status <> 'failed') AS ended,
           array_agg(CASE {end of settled} WHEN 'succeeded' THEN 'succeeded' WHEN 'skipped' THEN 'skipped'
                          ELSE 'cancelled' END)
               FILTER (WHERE awaited IS NOT false AND status <> 'failed') AS outcomes
      INTO all_of FROM settled;
    IF all_of.members = all_of.rows AND all_of.batch = all_of.last_batch AND all_of.succeeded = all_of.rows THEN
        INSERT INTO {schema}.batch_progress (batch_id, succeeded) VALUES (all_of.batch, all_of.succeeded);
    ELSIF all_of.members > 0 THEN
        INSERT INTO {schema}.batch_progress (batch_id, succeeded, failed, cancelled, skipped)
        SELECT batch_id, count(*) FILTER (WHERE status = 'succeeded'),
               -count(*) FILTER (WHERE status IN ('failed', 'dismissed')),
               count(*) FILTER (WHERE ended IN ('dismissed', 'cancelled', 'expired')),
               count(*) FILTER (WHERE ended = 'skipped')
          FROM (SELECT batch_id, status, {end of settled} AS ended FROM settled) AS members
         WHERE batch_id IS NOT NULL GROUP BY batch_id ORDER BY batch_id;
    END IF;
    IF all_of.ended IS NOT NULL THEN
        PERFORM {schema}.release(all_of.ended, all_of.outcomes);
    END IF;
    RETURN NULL;
END
$$;
