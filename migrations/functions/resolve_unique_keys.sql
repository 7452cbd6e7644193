-- Decide, before commands with unique keys are written, which of them are not written because another command stays.
--
-- Senders of one key, and replays of dead letters with it, run one after another, each until its commit. Of several
-- commands of one page that replace the same key, the last one is written. Running commands are not replaced. A command that
-- has expired holds no key: it ends here. Commands that end are locked in one order, whatever their keys are. An upgrade
-- makes this function before migration 40 adds expires_at, which is therefore read out of the row.
-- called by: send_command_arrays, the daemon
-- roles: worker
-- locks: as hold_unique_keys; what is replaced or has expired, with what waits for it (hold_ending)
CREATE OR REPLACE FUNCTION {schema}.resolve_unique_keys(types text[], keys text[], on_conflicts text[])
    RETURNS boolean[] LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    wrong    record;
    ending   bigint[];
    replaced bigint[];
    stays    boolean[];
BEGIN
    SELECT c.mode INTO wrong FROM unnest(on_conflicts) AS c(mode)
     WHERE c.mode NOT IN ('keep', 'replace', 'reject') LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'on_conflict is %', quote_literal(wrong.mode)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Say keep, replace or reject.';
    END IF;
    PERFORM {schema}.hold_unique_keys(types, keys);
    PERFORM {schema}.refuse_taken(g.type, g.key, c.command_id)
       FROM unnest(types, keys, on_conflicts) AS g(type, key, mode)
      CROSS JOIN LATERAL (
          SELECT u.command_id FROM {schema}.commands u
           WHERE u.type = g.type AND u.unique_key = g.key AND u.status <> 'failed'
             AND (u.status <> 'running' AND u.attempts = 0 AND u.crashes = 0
                  AND (to_jsonb(u) ->> 'expires_at')::timestamptz <= clock_timestamp()) IS NOT TRUE LIMIT 1) c
      WHERE g.mode = 'reject';
    SELECT array_agg(c.id), array_agg(c.id) FILTER (WHERE g.replaces) INTO ending, replaced
      FROM (SELECT type, key, bool_or(mode = 'replace') AS replaces
              FROM unnest(types, keys, on_conflicts) AS g(type, key, mode)
             WHERE key IS NOT NULL GROUP BY type, key) AS g
     CROSS JOIN LATERAL (SELECT u.id FROM {schema}.commands u
                          WHERE u.type = g.type AND u.unique_key = g.key AND u.status IN ('pending', 'waiting')
                            AND (g.replaces OR u.attempts = 0 AND u.crashes = 0
                                 AND (to_jsonb(u) ->> 'expires_at')::timestamptz <= clock_timestamp()) OFFSET 0) AS c;
    IF ending IS NOT NULL THEN
        PERFORM {schema}.hold_ending(ending, ARRAY['cancelled']);
        PERFORM {schema}.put_away(ending, 'expired');
        PERFORM {schema}.put_away(replaced, 'cancelled');
    END IF;
    SELECT array_agg(g.key IS NOT NULL AND (
               EXISTS (SELECT FROM {schema}.commands c
                        WHERE c.type = g.type AND c.unique_key = g.key AND c.status <> 'failed' OFFSET 0)
               OR g.last_n > g.n) ORDER BY g.n)
      INTO stays
      FROM (SELECT u.*, max(u.n) FILTER (WHERE u.mode = 'replace') OVER (PARTITION BY u.type, u.key) AS last_n
              FROM unnest(types, keys, on_conflicts) WITH ORDINALITY AS u(type, key, mode, n)) AS g;
    RETURN stays;
END
$$;
