-- Set how looks are planned until the transaction ends, whatever the statistics say: they walk an index in
-- its order and stop at their limit; or they read each block of a range once.
-- parameters: $1 boolean whether they walk
-- returns: a row without meaning
-- locks: nothing
SELECT set_config('enable_indexscan', CASE WHEN $1::boolean THEN 'on' ELSE 'off' END, true),
       set_config('enable_bitmapscan', CASE WHEN $1::boolean THEN 'off' ELSE 'on' END, true),
       {planned looks}
