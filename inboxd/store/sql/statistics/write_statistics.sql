-- Write a worker's counts since its last write. The minute is by the database's clock: the worker gives seconds ago.
-- parameters: arrays, an element a row: $1 double precision[] seconds ago, $2 text[] kinds, $3 text[] lanes, $4 text[]
--             types, $5 text[] outcomes, $6 text[] what they followed, $7 text[] tenants, $8 bigint[] counts; of the
--             runs $9 double precision[] totals, $10 double precision[] maxima, $11 text[] histograms, each a literal of
--             an integer[]; of the waits $12 to $14, of the completions $15 to $17 the same
-- returns: nothing
-- locks: nothing
INSERT INTO {schema}.stats_written (minute, kind, lane, type, outcome, after, tenant, count,
       run_total, run_maximum, run_histogram, wait_total, wait_maximum, wait_histogram,
       completion_total, completion_maximum, completion_histogram)
SELECT date_trunc('minute', statement_timestamp() - make_interval(secs => ago), 'UTC'), kind, lane, type, outcome, after,
       tenant, count, run_total, run_maximum, run_histogram::integer[], wait_total, wait_maximum, wait_histogram::integer[],
       completion_total, completion_maximum, completion_histogram::integer[]
  FROM unnest($1::double precision[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
              $8::bigint[], $9::double precision[], $10::double precision[], $11::text[], $12::double precision[],
              $13::double precision[], $14::text[], $15::double precision[], $16::double precision[], $17::text[])
       AS t(ago, kind, lane, type, outcome, after, tenant, count, run_total, run_maximum, run_histogram,
            wait_total, wait_maximum, wait_histogram, completion_total, completion_maximum, completion_histogram)
