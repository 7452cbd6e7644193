-- Write the counts of a partition, unless another count began, or the partition changed, meanwhile.
-- parameters: $1 text part, $2 timestamptz begun_at; bigint $3 succeeded, $4 failed, $5 cancelled, $6 dismissed,
--             $7 types_left, $8 tenants_left; arrays of types: $9 text[] type, $10 text[] status, $11 bigint[] rows; of
--             tenants: $12 text[] tenant, $13 text[] type, $14 text[] status, $15 bigint[] rows; bigint $16 written,
--             $17 bytes, as begin_census returned them, $18 low_id (no row has a lower id)
-- returns: part; no row: the counts are discarded
-- locks: the row of the partition
WITH ended AS (
    UPDATE {schema}.census SET counted_at = clock_timestamp(), succeeded = $3, failed = $4, cancelled = $5,
                               dismissed = $6, types_left = $7, tenants_left = $8, written = $16, bytes = $17,
                               low_id = $18
     WHERE part = $1::text AND begun_at = $2::timestamptz AND counted_at IS NULL
    RETURNING part, parent
), types AS (
    INSERT INTO {schema}.census_types (part, parent, type, status, rows)
    SELECT e.part, e.parent, t.* FROM ended e, unnest($9::text[], $10::text[], $11::bigint[]) AS t(type, status, rows)
), tenants AS (
    INSERT INTO {schema}.census_tenants (part, parent, tenant, type, status, rows)
    SELECT e.part, e.parent, t.* FROM ended e, unnest($12::text[], $13::text[], $14::text[], $15::bigint[]) AS t(tenant, type, status, rows)
)
SELECT part FROM ended
