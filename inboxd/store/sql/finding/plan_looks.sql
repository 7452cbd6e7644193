-- Until the transaction ends, looks are planned in one of two ways, whatever the statistics say: they walk an index in
-- its order and stop at their limit; or read each block of a range once.
-- parameters: $1 boolean whether they walk
-- returns: nothing that is of use
-- locks: nothing
SELECT set_config('enable_indexscan', CASE WHEN $1::boolean THEN 'on' ELSE 'off' END, true),
       set_config('enable_bitmapscan', CASE WHEN $1::boolean THEN 'off' ELSE 'on' END, true),
       {planned looks}
