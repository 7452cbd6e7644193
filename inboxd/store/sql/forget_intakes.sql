-- Remove intakes that were finished a day ago, or whose events are served where they are; and what was announced
-- by somebody who died before declaring it.
-- parameters: none
-- returns: nothing
-- locks: the rows
DELETE FROM {schema}.intakes i
 WHERE i.finished_at < clock_timestamp() - interval '1 day'
    OR i.finished_at IS NOT NULL
       AND EXISTS (SELECT FROM {schema}.subscriptions s WHERE s.type = i.type AND s.topic = i.origin)
    OR i.opened_at IS NULL AND i.declared_at < clock_timestamp() - interval '1 minute'
