-- Declare the topics of a worker that joins; sorted, so that two workers do not deadlock.
-- parameters: arrays, one entry a topic: $1 text[] names, $2 text[] modes, $3 text[] paths of ordering keys
--             and $4 text[] of dedup keys (JSON arrays, null: none), $5 text[] rules (JSON), $6 text[] sources,
--             $7 boolean[] whether it is the topic of a relay
-- returns: name and mode of each whose mode changed, and what it was
-- locks: the rows that change
WITH given AS MATERIALIZED (
    SELECT t.name, t.mode,
           (SELECT array_agg(part ORDER BY n) FROM jsonb_array_elements_text(t.key_path::jsonb)
              WITH ORDINALITY AS path(part, n)) AS key_path,
           CASE WHEN t.dedup_path IS NOT NULL THEN ARRAY(
               SELECT part FROM jsonb_array_elements_text(t.dedup_path::jsonb)
                 WITH ORDINALITY AS path(part, n) ORDER BY n) END AS dedup_path,
           t.rules::jsonb AS rules, t.source, t.relay
      FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::boolean[])
           AS t(name, mode, key_path, dedup_path, rules, source, relay)
), before AS MATERIALIZED (
    SELECT name, mode FROM {schema}.topics WHERE name = ANY ($1)
), written AS (
    INSERT INTO {schema}.topics AS old (name, mode, key_path, dedup_path, rules, source, relay)
    SELECT name, mode, key_path, dedup_path, rules, source, relay FROM given ORDER BY name
    ON CONFLICT (name) DO UPDATE
       SET mode = excluded.mode, key_path = excluded.key_path, dedup_path = excluded.dedup_path,
           rules = excluded.rules, source = excluded.source, relay = excluded.relay,
           declared_at = now(), undeclared_at = NULL
     WHERE (old.mode, old.key_path, old.dedup_path, old.rules, old.source, old.relay, old.undeclared_at)
           IS DISTINCT FROM
           (excluded.mode, excluded.key_path, excluded.dedup_path, excluded.rules, excluded.source,
            excluded.relay, NULL)
    RETURNING name, mode
)
SELECT w.name, w.mode, b.mode AS was FROM written w JOIN before b ON b.name = w.name AND b.mode <> w.mode
