-- Insert the row of a new daemon process.
-- parameters: $1 uuid id, $2 text name, $3 text host, $4 integer pid, $5 text version,
--             $6 text[] event types, $7 text[] command types, $8 text[] queues, $9 text declares (hash),
--             $10 text[] schedules, $11 text[] topics, $12 text[] subscriptions (topic, line feed, type),
--             $13 text[] the topics that it serves (empty: all),
--             $14 integer number of the process under its supervisor (null: none),
--             $15 text[] the endpoints of its settings, $16 text its release (its plugins, with their versions),
--             $17 integer the version of its code (that of its newest migration)
-- returns: nothing
-- locks: the new row
INSERT INTO {schema}.workers (id, name, host, pid, version, events, commands, queues, declares,
                              schedules, topics, subscriptions, served_topics, process, endpoints, release,
                              code)
VALUES ($1::uuid, $2, $3, $4, $5, $6::text[], $7::text[], $8::text[], $9, $10::text[], $11::text[],
        $12::text[], $13::text[], $14::integer, $15::text[], $16, $17::integer)
