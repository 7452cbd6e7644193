-- The queues that workers declared for their commands.
-- parameters: none
-- returns: queue
-- locks: nothing
SELECT DISTINCT d.queue FROM {schema}.declared_types d WHERE d.kind = 'command' AND d.queue IS NOT NULL
