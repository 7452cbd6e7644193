-- Write the events of held receipts of a source, the oldest first, a page.
-- parameters: $1 text source, $2 bigint position behind which the page begins, $3 integer receipts of the page
-- returns: released (how many), last (position), more (whether others may be held), busy (somebody else releases them)
-- locks: the source's release; for the last page, its receivers; the new rows and their dedup keys
SELECT released, last, more, busy FROM {schema}.release_receipts($1, $2, $3)
