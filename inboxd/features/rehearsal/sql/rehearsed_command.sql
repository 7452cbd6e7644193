-- A command as a claim would return it, unsettled or settled, whether it is locked or not.
-- Of several settled rows with the same command_id, the newest.
-- parameters: $1 bigint id, $2 uuid command_id (one of them null)
-- returns: as claim_commands.sql, lane = 0; status, settled; or no row
-- locks: nothing
SELECT {claimed command}, 0 AS lane, c.status, c.settled
  FROM (SELECT {command but updated_at}, false AS settled
          FROM {schema}.commands
         WHERE id = ANY ($1::bigint || ARRAY(SELECT named.id FROM {schema}.commands named WHERE named.command_id = $2::uuid))
        UNION ALL
        SELECT {command but updated_at}, true
          FROM {schema}.commands_history WHERE id = $1::bigint OR command_id = $2::uuid) c
 ORDER BY c.settled, c.id DESC LIMIT 1
