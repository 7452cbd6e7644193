-- No bitmaps until the transaction ends: they read all that matches before the first row comes, and without
-- statistics a planner takes them for the first ten of a million as well.
-- parameters: none
-- returns: nothing
-- locks: nothing
SET LOCAL enable_bitmapscan = off
