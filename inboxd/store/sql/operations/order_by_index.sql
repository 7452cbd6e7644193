-- Until the transaction ends, no bitmap scans: they read all matches before they return the first row, and without
-- statistics the planner chooses them even for the first ten of a million rows.
-- parameters: none
-- returns: nothing
-- locks: nothing
SET LOCAL enable_bitmapscan = off
