-- How well vacuum keeps up with the tables, without partitions: history is written once.
-- parameters: none
-- returns: name, live, dead (rows, as PostgreSQL estimates), due (dead rows at which autovacuum starts),
--          off (autovacuum is switched off for it), vacuumed (seconds since it last was; null: never),
--          running (a vacuum runs on it), bytes (the table without its indexes, estimated)
-- locks: nothing; pg_stat_all_tables would first collect every partition with its indexes
SELECT c.relname AS name, pg_stat_get_live_tuples(c.oid) AS live, pg_stat_get_dead_tuples(c.oid) AS dead,
       coalesce(o.threshold, current_setting('autovacuum_vacuum_threshold')::bigint)
           + coalesce(o.scale, current_setting('autovacuum_vacuum_scale_factor')::double precision)
             * greatest(c.reltuples, 0) AS due,
       coalesce(NOT o.enabled, false) AS off,
       extract(epoch FROM clock_timestamp() - greatest(
           pg_stat_get_last_autovacuum_time(c.oid), pg_stat_get_last_vacuum_time(c.oid)))::double precision
           AS vacuumed,
       EXISTS (SELECT FROM pg_stat_progress_vacuum p WHERE p.relid = c.oid) AS running,
       c.relpages::bigint * current_setting('block_size')::bigint AS bytes
  FROM pg_class c
 CROSS JOIN LATERAL (
     SELECT max(option_value) FILTER (WHERE option_name = 'autovacuum_vacuum_threshold')::bigint AS threshold,
            max(option_value) FILTER (WHERE option_name = 'autovacuum_vacuum_scale_factor')::double precision
                AS scale,
            max(option_value) FILTER (WHERE option_name = 'autovacuum_enabled')::boolean AS enabled
       FROM pg_options_to_table(c.reloptions)) o
 WHERE c.relnamespace = to_regnamespace('{schema}') AND c.relkind = 'r' AND NOT c.relispartition
 ORDER BY c.relname
