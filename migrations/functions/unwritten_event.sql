-- The existing event that kept another one from being written. The snapshots of this function are younger than the
-- insert's.
--
-- If the given event took a key in this transaction, but the row with its event_id has another key, the taken key is
-- released: the event was dropped after it took the key.
-- called by: copy_event_to, emit_event, write_events
-- roles: none
-- locks: the record that is given back
CREATE OR REPLACE FUNCTION {schema}.unwritten_event(
    of_type text, of_version integer, in_topic text, of_source text, with_key text, given_id uuid, saying jsonb
) RETURNS {schema}.emitted LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    says  bigint := {schema}.body_hash(of_type, coalesce(of_version, 1), coalesce(saying, '{}'));
    place record;
    taken boolean;
    known {schema}.emitted;
BEGIN
    SELECT r.topic, coalesce(of_source, '') AS source,
           coalesce(with_key, {schema}.declared_key(t.dedup_path, given_id, saying)) AS key INTO place
      FROM (SELECT coalesce(in_topic, (SELECT min(s.topic) FROM {schema}.subscriptions s WHERE s.type = of_type),
                            'default') AS topic) AS r
      LEFT JOIN {schema}.topics t ON t.name = r.topic;
    SELECT d.event_id, d.body_hash <> says, d.event_id = given_id AND d.seen_at = now()
      INTO known.event_id, known.conflict, taken
      FROM {schema}.dedup d WHERE d.topic = place.topic AND d.source = place.source AND d.key = place.key;
    IF taken THEN
        DELETE FROM {schema}.dedup d USING {schema}.events e
         WHERE d.topic = place.topic AND d.source = place.source AND d.key = place.key
           AND e.event_id = given_id AND e.topic = place.topic
           AND (e.dedup_key, coalesce(e.source, '')) IS DISTINCT FROM (place.key, place.source);
    END IF;
    IF known.conflict THEN
        SELECT d.event_id INTO known.event_id FROM {schema}.dedup d
         WHERE d.topic = place.topic AND d.source = place.source
           AND d.key = {schema}.contradiction(place.key, says);
    END IF;
    known.event_id := coalesce(known.event_id, given_id);
    known.conflict := coalesce(known.conflict, false);
    SELECT e.id INTO known.id
      FROM {schema}.events e WHERE e.event_id = known.event_id AND e.topic = place.topic;
    RETURN known;
END
$$;
