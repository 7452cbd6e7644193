-- Let the next process make its template.
-- parameters: none
-- returns: whether it was held
-- locks: unlocks that of lock_test_templates.sql
SELECT pg_advisory_unlock(hashtext('inboxd test templates'))
