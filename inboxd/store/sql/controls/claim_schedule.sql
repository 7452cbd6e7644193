-- Lock one schedule that is due, of those that this worker declares or an operator added, until the transaction ends.
-- parameters: $1 text[] declared names, $2 text[] names that are left out
-- returns: the fields of a schedule (`Schedule`), id, next_at, now (clock_timestamp()); no row if none is due
-- locks: the row, FOR UPDATE; a row that another worker holds is skipped
SELECT {each field schedule: s.NAME}, s.id, s.next_at, clock_timestamp() AS now
  FROM {schema}.schedules s
 WHERE (s.name = ANY ($1::text[]) OR s.added_at IS NOT NULL) AND s.name <> ALL ($2::text[]) AND s.next_at <= clock_timestamp()
   AND NOT EXISTS (SELECT FROM {schema}.controls c WHERE c.kind = 'schedule' AND c.name = s.name)
 ORDER BY s.next_at LIMIT 1 FOR UPDATE OF s SKIP LOCKED
