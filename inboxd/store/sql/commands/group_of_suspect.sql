-- The number of other commands in a suspect's group.
-- parameters: $1 uuid group, $2 bigint id
-- returns: others (unsettled commands of its group)
-- locks: nothing
SELECT count(*) AS others FROM {schema}.commands c WHERE c.suspect_group = $1::uuid AND c.id <> $2
