-- The role of a rehearsal, and whether the server counts its writes.
-- parameters: none
-- returns: role, counts (boolean: track_counts)
-- locks: nothing
SELECT current_user::text AS role, current_setting('track_counts')::boolean AS counts
