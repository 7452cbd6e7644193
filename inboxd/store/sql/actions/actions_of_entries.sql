-- Bulk actions that entries of the audit ordered, among some of the newest ones.
-- parameters: $1 bigint[] ids of entries, $2 integer actions to look at
-- returns: id, audit_id
-- locks: nothing
SELECT newest.id, newest.audit_id
  FROM (SELECT a.id, a.audit_id FROM {schema}.actions a ORDER BY a.id DESC LIMIT $2::integer) newest
 WHERE newest.audit_id = ANY ($1::bigint[])
