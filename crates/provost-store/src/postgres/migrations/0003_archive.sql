-- Events of plans that are over are moved to cold files. What was moved is recorded here for ever, and nothing else
-- can be removed.
--
-- There are still no partitions: see docs/scale.md for the figures. Vacuum makes the space of removed events free for
-- the next ones; it is told to begin before a fifth of a large table is free.
ALTER TABLE provost.event SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 100000);

-- An archiving takes a place in the log, so that no place is used twice when the newest event was archived.
CREATE TABLE provost.archive_file (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    folder text COLLATE "C" NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    login text COLLATE "C" NOT NULL,
    place bigint NOT NULL UNIQUE
);

-- Events of one plan in a cold file: where its chain began and ended, and where they are.
CREATE TABLE provost.archived (
    plan bigint NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    prev bytea NOT NULL,
    last_hash bytea NOT NULL,
    file bigint NOT NULL,
    start bigint NOT NULL,
    length bigint NOT NULL,
    digest bytea NOT NULL,
    PRIMARY KEY (plan, last_seq)
);

ALTER TABLE provost.plan
    ADD COLUMN archived_seq bigint NOT NULL DEFAULT 0,
    -- No event of it is in the log.
    ADD COLUMN is_archived boolean NOT NULL GENERATED ALWAYS AS (archived_seq > 0 AND seq = archived_seq) STORED;
CREATE INDEX plan_in_log ON provost.plan (id) WHERE NOT is_archived;
CREATE INDEX plan_archived ON provost.plan (id) WHERE is_archived;

CREATE FUNCTION provost.refuse_unrecorded() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM gone g WHERE NOT EXISTS (
            SELECT FROM provost.archived a WHERE a.plan = g.plan AND g.seq BETWEEN a.first_seq AND a.last_seq)) THEN
        RAISE EXCEPTION 'the log is append-only' USING ERRCODE = 'PV004';
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER event_is_never_changed ON provost.event;
CREATE TRIGGER event_is_never_changed BEFORE UPDATE OR TRUNCATE ON provost.event
    FOR EACH STATEMENT EXECUTE FUNCTION provost.refuse();
CREATE TRIGGER event_is_never_removed AFTER DELETE ON provost.event REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION provost.refuse_unrecorded();

-- A record continues the one before it and ends where the chain of its plan ends.
CREATE FUNCTION provost.refuse_other_ends() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.first_seq > NEW.last_seq
        OR NEW.first_seq <> 1 + coalesce((SELECT max(last_seq) FROM provost.archived WHERE plan = NEW.plan), 0)
        OR EXISTS (SELECT FROM provost.event WHERE plan = NEW.plan AND seq > NEW.last_seq)
        OR EXISTS (SELECT FROM provost.event WHERE plan = NEW.plan AND seq = NEW.last_seq AND hash <> NEW.last_hash) THEN
        RAISE EXCEPTION 'the log is append-only' USING ERRCODE = 'PV004';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER archived_is_the_end_of_a_chain BEFORE INSERT ON provost.archived
    FOR EACH ROW EXECUTE FUNCTION provost.refuse_other_ends();
CREATE TRIGGER archived_is_never_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON provost.archived
    FOR EACH STATEMENT EXECUTE FUNCTION provost.refuse();
CREATE TRIGGER archive_file_is_never_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON provost.archive_file
    FOR EACH STATEMENT EXECUTE FUNCTION provost.refuse();

-- The last place that was used, by an event or an archiving.
CREATE FUNCTION provost.log_end() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT greatest((SELECT coalesce(max(id), 0) FROM provost.event),
                    (SELECT coalesce(max(place), 0) FROM provost.archive_file))
$$;

-- Records the events of plans in a cold file, and removes them; with `p_through`, records those of plans that this log
-- does not have, and uses no place up to it. Either all of it is done, or nothing.
--   PV005  a plan is not in the state that the caller saw; the detail is its name
CREATE FUNCTION provost.archive(
    p_name text, p_folder text, p_plans text[], p_first bigint[], p_last bigint[], p_prev bytea[], p_hashes bytea[],
    p_starts bigint[], p_lengths bigint[], p_digests bytea[], p_through bigint
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    file_row bigint := nextval(pg_get_serial_sequence('provost.archive_file', 'id'));
    rows bigint[] := '{}';
    known provost.plan;
    removed bigint;
    place bigint;
    is_kept boolean := p_through IS NOT NULL;
BEGIN
    IF NOT provost.is_owner() THEN
        RAISE EXCEPTION 'the role % does not own the log', session_user USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'events are archived at isolation level read committed only';
    END IF;
    -- One after the other; readers and writers of events do not wait.
    LOCK TABLE provost.archive_file IN EXCLUSIVE MODE;
    place := provost.log_end();
    FOR i IN 1 .. cardinality(p_plans) LOOP
        IF is_kept AND provost.is_quoted(p_plans[i]) THEN
            INSERT INTO provost.plan (name, seq, hash) VALUES (p_plans[i], 0, p_prev[i]) ON CONFLICT DO NOTHING;
        END IF;
        SELECT * INTO known FROM provost.plan WHERE name = p_plans[i];
        IF known.id IS NULL OR known.archived_seq + 1 IS DISTINCT FROM p_first[i]
            OR NOT is_kept AND (known.seq IS DISTINCT FROM p_last[i] OR known.hash IS DISTINCT FROM p_hashes[i])
            OR is_kept AND (known.seq <> known.archived_seq OR known.hash IS DISTINCT FROM p_prev[i])
            OR EXISTS (SELECT FROM provost.lease WHERE name = '"plan ' || substr(p_plans[i], 2)
                       AND holder IS NOT NULL AND expires > clock_timestamp()) THEN
            RAISE EXCEPTION 'the plan went on' USING ERRCODE = 'PV005', DETAIL = p_plans[i];
        END IF;
        rows := rows || known.id;
        INSERT INTO provost.archived (plan, first_seq, last_seq, prev, last_hash, file, start, length, digest)
        VALUES (known.id, p_first[i], p_last[i], p_prev[i], p_hashes[i], file_row, p_starts[i], p_lengths[i],
                p_digests[i]);
        IF is_kept THEN
            UPDATE provost.plan SET seq = p_last[i], hash = p_hashes[i], archived_seq = p_last[i] WHERE id = known.id;
        ELSE
            DELETE FROM provost.event WHERE plan = known.id AND seq <= p_last[i];
            GET DIAGNOSTICS removed = ROW_COUNT;
            IF removed <> p_last[i] - p_first[i] + 1 THEN
                RAISE EXCEPTION 'the plan went on' USING ERRCODE = 'PV005', DETAIL = p_plans[i];
            END IF;
        END IF;
    END LOOP;
    -- Only from here on do other writers wait.
    LOCK TABLE provost.turn IN EXCLUSIVE MODE;
    IF NOT is_kept THEN
        FOR i IN 1 .. cardinality(p_plans) LOOP
            UPDATE provost.plan SET archived_seq = p_last[i]
            WHERE id = rows[i] AND seq = p_last[i] AND hash = p_hashes[i];
            IF NOT FOUND THEN
                RAISE EXCEPTION 'the plan went on' USING ERRCODE = 'PV005', DETAIL = p_plans[i];
            END IF;
        END LOOP;
    END IF;
    -- The newest event may be one of those that were removed.
    place := greatest(place, provost.log_end(), p_through) + 1;
    INSERT INTO provost.archive_file (id, name, folder, login, place) OVERRIDING SYSTEM VALUE
    VALUES (file_row, p_name, p_folder, session_user, place);
    PERFORM pg_notify('provost', place::text);
    RETURN place;
END $$;

-- The same as before, but for the place.
CREATE OR REPLACE FUNCTION provost.append(
    p_plan text, p_expected bigint, p_fence text, p_epoch bigint,
    p_at bigint[], p_names text[], p_steps bigint[], p_tasks text[], p_details text[], p_hashes bytea[],
    p_wakes text[], p_token bytea DEFAULT NULL, p_signer bytea DEFAULT NULL, p_seals bytea[] DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    plan_row bigint;
    head_seq bigint;
    head_hash bytea;
    held provost.lease;
    place bigint;
    wrong text;
    writer text := provost.writer();
    many int := coalesce(cardinality(p_names), 0);
BEGIN
    -- Each look below must see what was committed while this one waited for its turn.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'events are written at isolation level read committed only';
    END IF;
    FOR i IN 1 .. many LOOP
        wrong := provost.malformed(p_names[i], p_details[i], p_steps[i], p_at[i]);
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION 'nobody could read this % event: %', p_names[i], wrong USING ERRCODE = 'PV003';
        END IF;
        IF NOT provost.may_say(p_names[i], p_details[i]) THEN
            RAISE EXCEPTION 'the role % may not say %', session_user, p_names[i]
                USING ERRCODE = 'insufficient_privilege';
        END IF;
        IF writer = 'worker' AND p_names[i] IN ('CONTRACT_JUDGED', 'TASK_COMPLETED')
            AND (octet_length(p_seals[i]) IS DISTINCT FROM 64
                OR NOT EXISTS (SELECT FROM provost.checker WHERE key = p_signer)) THEN
            RAISE EXCEPTION 'the role % may say % only with a trusted key', session_user, p_names[i]
                USING ERRCODE = 'insufficient_privilege';
        END IF;
    END LOOP;
    IF writer = 'worker' AND p_fence IS DISTINCT FROM '"plan ' || substr(p_plan, 2) THEN
        RAISE EXCEPTION 'the role % writes only with the lease of the plan', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF p_fence IS NOT NULL THEN
        SELECT * INTO held FROM provost.lease WHERE name = p_fence FOR SHARE;
        IF coalesce(held.epoch, 0) IS DISTINCT FROM p_epoch
            OR held.epoch IS NOT NULL AND NOT provost.holds(held.login, held.token, p_token) THEN
            RAISE EXCEPTION 'fenced' USING ERRCODE = 'PV002', DETAIL = coalesce(held.epoch, 0)::text;
        END IF;
        IF writer = 'worker' AND held.holder IS NULL THEN
            RAISE EXCEPTION 'fenced' USING ERRCODE = 'PV002', DETAIL = coalesce(held.epoch, 0)::text;
        END IF;
    END IF;
    LOCK TABLE provost.turn IN EXCLUSIVE MODE;
    SELECT id, seq, hash INTO plan_row, head_seq, head_hash FROM provost.plan WHERE name = p_plan;
    IF coalesce(head_seq, 0) <> p_expected THEN
        RAISE EXCEPTION 'conflict' USING ERRCODE = 'PV001', DETAIL = coalesce(head_seq, 0)::text;
    END IF;
    place := provost.log_end();
    IF many > 0 THEN
        head_seq := coalesce(head_seq, 0);
        head_hash := coalesce(head_hash, decode(repeat('00', 32), 'hex'));
        IF plan_row IS NULL THEN
            IF NOT provost.is_quoted(p_plan) THEN
                RAISE EXCEPTION 'the plan is not named by a JSON string' USING ERRCODE = 'PV003';
            END IF;
            INSERT INTO provost.plan (name, seq, hash) VALUES (p_plan, 0, head_hash) RETURNING id INTO plan_row;
        END IF;
        FOR i IN 1 .. many LOOP
            head_seq := head_seq + 1;
            place := place + 1;
            -- What is no JSON by itself could still be a part of an object that hashes well.
            IF p_tasks[i] IS NOT NULL AND NOT provost.is_quoted(p_tasks[i])
                OR p_hashes[i] IS DISTINCT FROM sha256(convert_to(provost.object(p_plan, head_seq, p_at[i],
                    p_names[i], p_steps[i], p_tasks[i], p_details[i], head_hash), 'UTF8')) THEN
                RAISE EXCEPTION 'the seal of event % does not fit', head_seq USING ERRCODE = 'PV003';
            END IF;
            INSERT INTO provost.event (id, plan, seq, at_ms, name, step, task_name, details, prev, hash,
                                       login, writer, signer, seal)
            VALUES (place, plan_row, head_seq, p_at[i], p_names[i], p_steps[i], p_tasks[i], p_details[i],
                    head_hash, p_hashes[i], session_user, writer,
                    CASE WHEN p_seals[i] IS NOT NULL THEN p_signer END, p_seals[i]);
            head_hash := p_hashes[i];
        END LOOP;
        UPDATE provost.plan SET seq = head_seq, hash = head_hash WHERE id = plan_row;
        PERFORM pg_notify('provost', place::text);
    END IF;
    INSERT INTO provost.wake SELECT DISTINCT unnest(p_wakes) ON CONFLICT DO NOTHING;
    RETURN place;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA provost FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA provost FROM PUBLIC;
