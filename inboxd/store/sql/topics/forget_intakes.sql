-- Delete finished intakes from which nothing more will be taken: their subscription or topic has ended, or their events are
-- served where they are; and announcements of processes that died before declaring. A process that is just declaring has
-- locked its rows.
-- parameters: none
-- returns: nothing
-- locks: the rows
DELETE FROM {schema}.intakes i
 WHERE i.finished_at IS NOT NULL
       AND CASE WHEN i.type = ''
                THEN NOT EXISTS (SELECT FROM {schema}.topics t WHERE t.name = i.topic AND t.mode <> 'single')
                ELSE NOT EXISTS (SELECT FROM {schema}.subscriptions s WHERE s.type = i.type AND s.topic = i.topic)
                     OR EXISTS (SELECT FROM {schema}.subscriptions s WHERE s.type = i.type AND s.topic = i.origin)
           END
    OR (i.origin, i.type, i.topic) IN (
           SELECT a.origin, a.type, a.topic FROM {schema}.intakes a
            WHERE a.opened_at IS NULL AND a.announced_at < clock_timestamp() - interval '10 seconds'
              FOR UPDATE SKIP LOCKED)
