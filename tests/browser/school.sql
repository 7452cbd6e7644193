-- A school in the middle of a day.
insert into inboxd.workers (id, name, host, pid, version, events, commands, queues, declares, state, in_flight, started_at,
                            beat_at, heartbeat, topics, served_topics, events_in_flight, process)
select gen_random_uuid(), t.name, t.host, t.pid, '0.1.0', '{activity.published,answer.given}', '{school.send_email,school.grade_answer}',
       '{default,email,grading}', 'school', 'running', t.busy, now() - t.since, now() + interval '10 min', 900, '{default}', '{default}', 2, t.process
  from (values ('school-1', 'node-a', 4021, interval '6 h 12 min', 9, 1), ('school-1', 'node-a', 4022, interval '6 h 12 min', 7, 2),
               ('school-2', 'node-b', 811, interval '41 min', 3, null)) as t(name, host, pid, since, busy, process);

insert into inboxd.declared_types (kind, type, queue, title, description) values
    ('event', 'activity.published', null, 'Activity published', 'A teacher has published an activity for a class.'),
    ('event', 'activity.delivered', null, 'Activity delivered', 'The whole class has its e-mail.'),
    ('event', 'answer.given', null, 'Answer given', 'A student has handed in an answer.'),
    ('event', 'institution.created', null, 'Institution created', 'A school signed up.'),
    ('command', 'school.send_email', 'email', 'Send e-mail', 'Send one e-mail to one student.'),
    ('command', 'school.grade_answer', 'grading', 'Grade answer', 'Say what an answer is worth.'),
    ('command', 'school.tell_teacher', 'default', 'Tell teacher', 'Tell the teacher that the whole class has its e-mail.'),
    ('command', 'school.seed_users', 'default', 'Set up users', 'Make the users of a new institution.')
on conflict (kind, type) do update set title = excluded.title, description = excluded.description;

-- Settled rows: activities and answers, with their e-mails and grades.
insert into inboxd.events_history (id, event_id, topic, mode, type, schema_version, tenant, entity_type, entity_id, payload, status,
                                   attempts, crashes, run_at, correlation_id, occurred_at, created_at, updated_at, finished_at, duration)
select nextval(pg_get_serial_sequence('inboxd.events', 'id')), md5('event' || n)::uuid, 'default', 'single',
       case when n % 6 = 0 then 'activity.published' when n % 6 = 1 then 'activity.delivered' else 'answer.given' end, 1,
       case when n % 3 = 0 then 'aurora' else 'malta' end, case when n % 6 < 2 then 'activity' else 'answer' end, n::text,
       jsonb_build_object('activity_id', n / 6, 'title', 'Reading, part ' || n / 6), 'succeeded', 1, 0, at, 'story-' || n / 6, at, at, at,
       at + interval '250 ms', interval '12 ms'
  from (select n, now() - make_interval(secs => 5 + (180 - n) * 19) as at from generate_series(1, 180) n) t;

insert into inboxd.commands_history (id, command_id, queue, type, schema_version, tenant, entity_type, entity_id, payload, priority, status,
                                     attempts, crashes, fence, run_at, cancel_requested, origin_kind, origin_id, causation_id,
                                     correlation_id, result, created_at, updated_at, finished_at, duration, awaited)
select nextval(pg_get_serial_sequence('inboxd.commands', 'id')), md5('command' || n)::uuid,
       case when n % 3 = 2 then 'grading' else 'email' end,
       case when n % 3 = 2 then 'school.grade_answer' else 'school.send_email' end, 1,
       case when n % 3 = 0 then 'aurora' else 'malta' end, 'student', (n % 90)::text,
       jsonb_build_object('activity_id', n / 6, 'student_id', n % 90, 'address', 'student' || n % 90 || '@school.example'), 0,
       case when n % 57 = 0 then 'dismissed' when n % 41 = 0 then 'cancelled' else 'succeeded' end, 1 + (n % 29 = 0)::int, 0, 1, at, false,
       'event', e.id, e.event_id, 'story-' || n / 6, jsonb_build_object('grade', n % 10), at, at, at + interval '900 ms', interval '180 ms', false
  from (select n, now() - make_interval(secs => 4 + (170 - n) * 18) as at from generate_series(1, 170) n) t
  join inboxd.events_history e on e.event_id = md5('event' || n)::uuid;

-- Waiting rows.
insert into inboxd.events (topic, type, tenant, entity_type, entity_id, payload, run_at, created_at, occurred_at)
select 'default', t.type, t.tenant, t.entity, n::text, jsonb_build_object('activity_id', n, 'title', 'Reading, part ' || n),
       now() - make_interval(secs => n), now() - make_interval(secs => n + 3), now() - make_interval(secs => n + 4)
  from (values ('activity.published', 'malta', 'activity', 3), ('answer.given', 'malta', 'answer', 14),
               ('answer.given', 'aurora', 'answer', 9), ('institution.created', 'aurora', 'institution', 1))
       as t(type, tenant, entity, rows), generate_series(1, t.rows) n;

insert into inboxd.commands (queue, type, tenant, payload, run_at, created_at, attempts, errors)
select t.queue, t.type, t.tenant,
       jsonb_build_object('activity_id', 12, 'student_id', n, 'address', 'student' || n || '@school.example', 'subject', 'New activity: Reading'),
       now() - make_interval(secs => t.late * n), now() - make_interval(secs => abs(t.late) * n + 2), t.attempts,
       case when t.attempts > 0 then '[{"attempt": 1, "error": "SMTPServerDisconnected: Connection unexpectedly closed"}]'::jsonb end
  from (values ('email', 'school.send_email', 'malta', 0.4, 0, 260), ('email', 'school.send_email', 'aurora', -2.0, 2, 31),
               ('grading', 'school.grade_answer', 'malta', 0.1, 0, 48), ('default', 'school.tell_teacher', 'malta', 1.0, 0, 2))
       as t(queue, type, tenant, late, attempts, rows), generate_series(1, t.rows) n;

-- Running commands.
update inboxd.commands set status = 'running', worker_id = (select id from inboxd.workers order by name limit 1), fence = fence + 1,
       attempts = attempts + 1, started_at = now() - interval '1 s',
       progress = case when id % 5 = 0 then jsonb_build_object('done', 30, 'of', 100, 'note', 'waits for the mail server') end
 where id in (select id from inboxd.commands where type = 'school.send_email' and status = 'pending' and attempts = 0 order by id limit 16);

-- Dead letters.
insert into inboxd.commands (queue, type, tenant, payload, created_at, attempts, errors, fingerprint, status)
select t.queue, t.type, t.tenant, jsonb_build_object('student_id', n, 'address', 'student' || n || '@school.example'),
       now() - make_interval(mins => n), t.attempts, jsonb_build_array(jsonb_build_object('attempt', t.attempts, 'error', t.error,
       'at', now() - make_interval(mins => n), 'worker', 'school-1', 'traceback', 'Traceback (most recent call last):' || chr(10) ||
       '  File "school/mail.py", line 41, in deliver' || chr(10) || '    raise Refused(answer)' || chr(10) || t.error)), t.fingerprint, 'failed'
  from (values ('email', 'school.send_email', 'malta', 5, 'SMTPRecipientsRefused: 550 no mailbox student7@school.example', 'a3f81c09be2d', 7),
               ('email', 'school.send_email', 'aurora', 5, 'TimeoutError: the mail server did not answer within 30 s', '5be2077d41aa', 3),
               ('grading', 'school.grade_answer', 'malta', 1, 'KeyError: ''answer''', '9917d0ce5a12', 1))
       as t(queue, type, tenant, attempts, error, fingerprint, rows), generate_series(1, t.rows) n;

-- A paused queue and an open breaker.
insert into inboxd.controls (kind, name, paused_at, actor, reason) values
    ('queue', 'grading', now() - interval '23 min', 'ana', 'the rubric is being changed');
insert into inboxd.breakers (name, state, opens, open_until, reason, uses) values
    ('mail', 'open', 1, now() + interval '30 min', '5 of 6 calls failed', '{command school.send_email}');

-- Batches of e-mails, and a workflow that sets up an institution.
insert into inboxd.batches (kind, type, name, tenant, status, size, succeeded, failed, origin_kind, origin_id, causation_id,
                            correlation_id, created_at, closed_at, finished_at, failed_at)
select t.kind, case t.kind when 'batch' then 'school.mails' else 'school.setup' end, t.name, t.tenant, t.status, t.size, t.succeeded,
       t.failed, 'event', e.id, e.event_id, e.correlation_id,
       e.created_at, e.created_at + interval '1 s', case when t.status in ('succeeded', 'failed') then e.created_at + t.took end,
       case when t.failed > 0 then e.created_at + t.took end
  from (values ('batch', 'e-mails of activity 12', 'malta', 'succeeded', 30, 30, 0, 72, interval '14 s'),
               ('batch', 'e-mails of activity 20', 'malta', 'running', 45, 31, 0, 120, null),
               ('batch', 'e-mails of activity 23', 'aurora', 'failed', 24, 21, 3, 138, interval '2 min'),
               ('workflow', 'set up institution 3', 'aurora', 'succeeded', 3, 3, 0, 6, interval '9 s'))
       as t(kind, name, tenant, status, size, succeeded, failed, event, took)
  join inboxd.events_history e on e.event_id = md5('event' || t.event)::uuid;

update inboxd.commands_history c set batch_id = b.id
  from (select id, row_number() over (order by id) as n from inboxd.batches where kind = 'batch') b
 where c.type = 'school.send_email' and c.id % 6 = b.n;
update inboxd.commands c set batch_id = (select id from inboxd.batches where status = 'failed')
 where c.fingerprint = '5be2077d41aa';

-- A command that failed, was sent again, and then succeeded.
update inboxd.commands_history c set replay_of = (select min(d.id) from inboxd.commands d where d.fingerprint = 'a3f81c09be2d'),
       origin_kind = 'replay'
 where c.command_id = md5('command168')::uuid;

insert into inboxd.schedules (name, source, cron, zone, missed, kind, type, schema_version, priority, payload, next_at, last_at, title) values
    ('school.weekly_report', 'code', '0 7 * * 1', 'America/Sao_Paulo', 'once', 'command', 'school.send_email', 1, 0, '{}',
     date_trunc('day', now()) + interval '3 days 10 h', date_trunc('day', now()) - interval '4 days' + interval '10 h', 'Weekly report'),
    ('school.clean_drafts', 'code', '*/15 * * * *', 'UTC', 'skip', 'command', 'school.grade_answer', 1, 0, '{}',
     date_trunc('hour', now()) + interval '75 min', date_trunc('hour', now()), 'Remove old drafts');
insert into inboxd.endpoints (name, url, types, tenant, secrets, last_success_at, last_status) values
    ('aurora', 'https://hooks.aurora.example/inbox', '{activity.delivered}', 'aurora', '["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]', now() - interval '40 s', 204);
insert into inboxd.receivers (id, name, host, pid, version, sources, beat_at) values
    (gen_random_uuid(), 'receiver-1', 'node-a', 5120, '0.1.0', '{payments}', now() + interval '10 min');
insert into inboxd.receipts (receipt_id, received_at, source, outcome, event_ids, body, body_bytes, content_type, address)
select md5('receipt' || n)::uuid, now() - make_interval(mins => n), 'payments', 'stored', '{}', '{"paid": true}'::bytea, 14, 'application/json', '203.0.113.7'
  from generate_series(1, 5) n;
insert into inboxd.audit (at, actor, action, target, reason, count) values
    (now() - interval '23 min', 'ana', 'pause', 'queue grading', 'the rubric is being changed', 1),
    (now() - interval '2 h', 'bruno', 'replay', 'commands of group a3f81c09be2d', 'mailboxes were made', 12);
insert into inboxd.actions (kind, verb, selection, actor, reason, audit_id, status, goes_on_as, note, starts_at, rate, canary, above, first_id,
                            last_id, counted, whole, done, left_out, next_at, created_at, began_at)
values ('command', 'replay', '{"statuses": ["failed"], "type": "school.send_email", "error": "mailbox", "since": "2026-01-31T08:00:00+00:00"}', 'bruno',
        'mailboxes were made', 2, 'paused', 'running', 'the canary failed: 1 of the first 10 did not succeed: command 4711 is failed',
        now() - interval '2 h', 50, 10, 30, 1, 90, 24, true, 10, 1, now(), now() - interval '2 h', now() - interval '2 h');
