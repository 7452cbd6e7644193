-- One command, hot or settled, with all columns; payload and result only on request.
-- Of several settled rows with the same command_id, the newest.
-- parameters: $1 bigint id, $2 uuid command_id (one of them null), $3 boolean with payload and result
-- returns: one jsonb object, or no row; ended_as (of a settled one): its status, or expired or skipped
-- locks: nothing
SELECT found.whole - ARRAY['payload', 'result']
       || CASE WHEN $3::boolean THEN jsonb_build_object(
              'result', found.result,
              'payload', coalesce(found.payload, {content jsonb: (SELECT b.payload FROM {schema}.bodies b
                                  WHERE b.id = found.body_id AND b.created_at = found.body_at)}))
          ELSE '{}' END
  FROM (SELECT to_jsonb(c) AS whole, id, payload, result, body_id, body_at, 1 AS place
          FROM (SELECT {command but payload, errors, result, progress}, needs, line_at, suspect_group, lone_crashes,
                       alone_fence, {content jsonb: payload} AS payload, {content jsonb: errors} AS errors,
                       {content jsonb: result} AS result, {content jsonb: progress} AS progress
                  FROM {schema}.commands) c
         WHERE id = ANY ($1::bigint || ARRAY(SELECT named.id FROM {schema}.commands named WHERE named.command_id = $2::uuid))
        UNION ALL
        SELECT to_jsonb(c) || jsonb_build_object('duration', extract(epoch FROM duration), 'ended_as', {end of c}), id, payload,
               result, body_id, body_at, 2
          FROM (SELECT {command but payload, errors, result, progress}, finished_at, duration,
                       {content jsonb: payload} AS payload, {content jsonb: errors} AS errors,
                       {content jsonb: result} AS result, {content jsonb: progress} AS progress
                  FROM {schema}.commands_history) c
         WHERE id = $1::bigint OR command_id = $2::uuid) found
 ORDER BY found.place, found.id DESC LIMIT 1
