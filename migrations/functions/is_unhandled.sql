-- Whether no living worker handles events of a type in a topic, while there are some workers: where nobody lives,
-- nothing can be said.
--
-- A handler without a topic is declared for the default one, and takes the events of every topic, but for the batch
-- topics that its worker has chunks of; workers of a release without topics declare types alone.
-- called by: the daemon
-- roles: operator, viewer, worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.is_unhandled(topic text, type text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT NOT coalesce(pg_catalog.bool_or(
        (pg_catalog.cardinality(w.served_topics) = 0 OR $1 = ANY (w.served_topics))
        AND CASE WHEN pg_catalog.cardinality(w.subscriptions) = 0 THEN $2 = ANY (w.events)
                 ELSE $1 || E'\n' || $2 = ANY (w.subscriptions)
                      OR (E'default\n' || $2 = ANY (w.subscriptions)
                          AND NOT (EXISTS (SELECT FROM {schema}.topics t WHERE t.name = $1 AND t.mode = 'batch')
                                   AND EXISTS (SELECT FROM pg_catalog.unnest(w.subscriptions) AS each
                                                WHERE pg_catalog.starts_with(each, $1 || E'\n')))) END), true)
      FROM {schema}.workers w WHERE w.state IN ('running', 'draining')
$$;
