-- Whether all days of events since then are complete: none was removed, or has lost the rows of a type, because of its age.
-- parameters: $1 timestamptz
-- returns: boolean
-- locks: briefly, as every reader
SELECT NOT EXISTS (SELECT FROM {schema}.retired r WHERE r.parent = 'events_history' AND r.high > $1::timestamptz)
       AND NOT EXISTS (SELECT FROM {schema}.trimmed t
                         JOIN {schema}.every_partition p ON p.part = t.part
                        WHERE p.parent = 'events_history' AND p.high > $1::timestamptz)
