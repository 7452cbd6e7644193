-- The lowest id of a past day stays known while the day is counted again, and is unknown once rows may have come back.
-- oldest code: 3
--
-- Before, a discarded count hid it, so after an erasure lists read all days until the leader had counted them. And a leader of
-- older code, which does not write it, left that of the count before: too high, if the day was detached then.
-- It reads the lowest id of each day by an index, and locks the days against being dropped until its end.

DO $low$
DECLARE
    day text;
BEGIN
    UPDATE {schema}.census SET low_id = NULL WHERE counted_at IS NULL AND low_id IS NOT NULL;
    FOR day IN SELECT c.part FROM {schema}.census c JOIN {schema}.partitions p ON p.part = c.part
                WHERE c.counted_at IS NOT NULL AND c.low_id IS NOT NULL AND NOT p.pending ORDER BY c.part
    LOOP
        BEGIN
            EXECUTE format('UPDATE {schema}.census SET low_id = coalesce((SELECT min(id) FROM {schema}.%I),'
                           ' 9223372036854775807) WHERE part = %L', day, day);
        EXCEPTION WHEN undefined_table THEN
            NULL; -- the leader has dropped the day meanwhile
        END;
    END LOOP;
END
$low$;
