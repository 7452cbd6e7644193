-- Write the events of a page of a source's held receipts, oldest first.
-- parameters: $1 text source, $2 bigint position after which the page begins, $3 integer receipts of the page
-- returns: released (how many), last (position), more (whether others may be held), busy (another session releases them)
-- locks: the source's release; for the last page, its receivers; the new rows and their dedup keys
SELECT released, last, more, busy FROM {schema}.release_receipts($1, $2, $3)
