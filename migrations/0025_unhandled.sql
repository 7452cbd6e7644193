-- Events that nobody handles are kept (ADR 19), and a worker may serve named topics only.
-- oldest code: 4
--
-- Code before this migration makes dead letters of such events, and takes every worker for one that serves
-- all topics: it fails less than it might, never more.

-- The topics that this worker serves, as queues has its queues; empty: all. What its plugins declare, in
-- topics and subscriptions, is declared all the same.
ALTER TABLE {schema}.workers ADD COLUMN served_topics text[] NOT NULL DEFAULT '{}';

-- Whether no living worker handles events of a type in a topic, while there are some workers: where nobody
-- lives, nothing can be said. A handler without a topic is declared for the default one, and takes the events
-- of every topic, but for the batch topics that its worker has lists of; workers of a release without topics
-- declare types alone.
CREATE FUNCTION {schema}.is_unhandled(topic text, type text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT NOT coalesce(bool_or(
        (cardinality(w.served_topics) = 0 OR $1 = ANY (w.served_topics))
        AND CASE WHEN cardinality(w.subscriptions) = 0 THEN $2 = ANY (w.events)
                 ELSE $1 || E'\n' || $2 = ANY (w.subscriptions)
                      OR (E'default\n' || $2 = ANY (w.subscriptions)
                          AND NOT (EXISTS (SELECT FROM {schema}.topics t WHERE t.name = $1 AND t.mode = 'batch')
                                   AND EXISTS (SELECT FROM unnest(w.subscriptions) AS each
                                                WHERE starts_with(each, $1 || E'\n')))) END), true)
      FROM {schema}.workers w WHERE w.state IN ('running', 'draining')
$$;

REVOKE EXECUTE ON FUNCTION {schema}.is_unhandled(text, text) FROM PUBLIC;

DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION {schema}.is_unhandled(text, text) TO {schema}_worker;
    END IF;
END
$do$;
