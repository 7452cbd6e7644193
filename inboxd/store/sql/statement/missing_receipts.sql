-- Days with fewer receipts than they had.
-- parameters: none
-- returns: day, source, rows (that are missing), most
-- locks: nothing
SELECT day, source, most - found AS rows, most FROM {schema}.statement_receipts WHERE found < most
