-- Rows for the operating pages that the school of the browser tests lacks.
insert into inboxd.endpoints (name, url, types, secrets, failing_since, last_failure, last_failure_at)
    values ('acme', 'https://acme.example/hooks', '{user.*}',
            '[{"secret": "whsec_c2VjcmV0IG9mIGFuIGVuZHBvaW50IQ==", "created_at": "2026-01-01T00:00:00Z"}]', now(), 'answered 500', now());
insert into inboxd.commands (queue, type, payload) values
    ('webhooks.acme', 'webhook.deliver', '{"id": "m1", "type": "user.created", "endpoint": "acme"}');
insert into inboxd.schedules (name, source, cron, zone, missed, kind, type, schema_version, lane, priority, payload, next_at, title)
    values ('nightly', 'school', '0 3 * * *', 'UTC', 'skip', 'command', 'school.seed_users', 1, 'default', 0, '{}',
            now() + interval '1 h', 'Every night');
insert into inboxd.audit (actor, action, target, reason, count) values
    ('ana@node-a', 'pause', 'queue grading', 'the rubric is being changed', 48),
    ('rui@node-b', 'replay', 'commands 7', null, 1);
insert into inboxd.receivers (id, name, host, pid, version, sources, holds, state, beat_at, spooled, trouble)
    values (gen_random_uuid(), 'door', 'node-c', 7, '1', '{bank}', '{}', 'running', now(), '{bank}', 'the disk is full');
insert into inboxd.topics (name, mode, source, rules) values ('points', 'sequential', 'school', '{"wait": "5s"}');
insert into inboxd.subscriptions (topic, type) values ('points', 'answer.given');
insert into inboxd.statement_days (day, closed_at) values ('2026-01-31', now());
insert into inboxd.statement_lines values ('2026-01-31', 'shop', 1230, 1234, 4, 1220, 5, 1, 1, 1, 1);
insert into inboxd.statement_findings (day, source, what, rows, detail, accepted_at, accepted_by) values
    ('2026-01-31', 'shop', 'rows_missing', 1, 'were received, and are nowhere now', now(), 'ana@node-a');
