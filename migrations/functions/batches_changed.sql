-- Record in batch_changes by how many the batches of a kind, type, tenant and status become more or fewer.
--
-- Lines are only inserted, so concurrent folds do not wait for each other. The leader adds the lines up.
-- called by: trigger batches_added, trigger batches_moved, trigger batches_removed
-- roles: none
-- locks: the new rows
CREATE OR REPLACE FUNCTION {schema}.batches_changed() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        INSERT INTO {schema}.batch_changes (kind, type, tenant, status, rows)
        VALUES (OLD.kind, OLD.type, OLD.tenant, OLD.status, -1), (NEW.kind, NEW.type, NEW.tenant, NEW.status, 1);
    ELSE
        INSERT INTO {schema}.batch_changes (kind, type, tenant, status, rows)
        SELECT kind, type, tenant, status, CASE TG_OP WHEN 'INSERT' THEN count(*) ELSE -count(*) END
          FROM changed GROUP BY kind, type, tenant, status;
    END IF;
    RETURN NULL;
END
$$;
