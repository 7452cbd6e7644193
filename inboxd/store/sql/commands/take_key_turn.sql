-- Grant a start to a command of an ordering key, if the key's last start was long enough ago.
-- parameters: $1 text queue, $2 text ordering key, $3 double precision seconds between two starts
-- returns: wait (seconds until it may start; 0: it may start now, and this start counts), next_at (by which
--          give_back_key_turn.sql finds a start that counts; else null)
-- locks: the key's row
WITH taken AS (
    INSERT INTO {schema}.key_rates AS k (queue, ordering_key, next_at)
    VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
    ON CONFLICT (queue, ordering_key) DO UPDATE SET next_at = clock_timestamp() + make_interval(secs => $3)
     WHERE k.next_at <= clock_timestamp()
           -- Neither can be: the clock was set back, or the rate was raised.
        OR k.next_at > clock_timestamp() + make_interval(secs => $3)
    RETURNING k.next_at)
SELECT CASE WHEN EXISTS (SELECT FROM taken) THEN 0.0
            -- If another command was granted a start just now, this snapshot does not show it.
            ELSE greatest(0.001, coalesce(
                (SELECT extract(epoch FROM k.next_at - clock_timestamp())::double precision
                   FROM {schema}.key_rates k WHERE k.queue = $1 AND k.ordering_key = $2), $3)) END AS wait,
       (SELECT next_at FROM taken) AS next_at
