-- The sequences that number rows, with the highest number in use. Only of days between two times, so that the plan locks
-- no other days. Rows that a role may not read are left out: bodies for viewers, duplicates for operators as well.
-- parameters: $1 timestamptz, $2 timestamptz: the days of history that are looked at
-- returns: name, last (number that it gave out; null: it is missing), highest (0: the table is empty)
-- locks: nothing
SELECT s.name, {schema}.number_given(s.name) AS last, coalesce(s.highest, 0) AS highest
  FROM (VALUES
        ('events_flag', NULL::bigint),
        ('commands_flag', NULL),
        ('events_id_seq', greatest(
            (SELECT max(id) FROM {schema}.events),
            (SELECT max(id) FROM {schema}.events_history WHERE finished_at >= $1 AND finished_at < $2))),
        ('commands_id_seq', greatest(
            (SELECT max(id) FROM {schema}.commands),
            (SELECT max(id) FROM {schema}.commands_history WHERE finished_at >= $1 AND finished_at < $2))),
        ('bodies_id_seq',
            {content bigint: (SELECT max(id) FROM {schema}.bodies WHERE created_at >= $1 AND created_at < $2)}),
        ('duplicates_id_seq', {secret bigint: (SELECT max(id) FROM {schema}.duplicates)}),
        ('held_receipts_position_seq',
            (SELECT max(last.position) FROM {schema}.held_sources s
              CROSS JOIN LATERAL (SELECT h.position FROM {schema}.held_receipts h WHERE h.source = s.source
                                   ORDER BY h.position DESC LIMIT 1) AS last)),
        ('batches_id_seq', (SELECT max(id) FROM {schema}.batches)),
        ('batch_changes_id_seq', (SELECT max(id) FROM {schema}.batch_changes)),
        ('schedules_id_seq', (SELECT max(id) FROM {schema}.schedules)),
        ('audit_id_seq', (SELECT max(id) FROM {schema}.audit)),
        ('actions_id_seq', (SELECT max(id) FROM {schema}.actions)),
        ('notices_id_seq', (SELECT max(id) FROM {schema}.notices)),
        ('breaker_changes_id_seq', (SELECT max(id) FROM {schema}.breaker_changes)),
        ('stats_written_id_seq', (SELECT max(id) FROM {schema}.stats_written)),
        ('stats_series_id_seq', (SELECT max(id) FROM {schema}.stats_series))
       ) AS s(name, highest)
 ORDER BY s.name
