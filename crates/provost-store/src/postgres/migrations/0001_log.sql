-- The log. `id` is the order in which events became visible, across plans, without a gap: writers take turns,
-- so a follower that has read up to an id has missed nothing before it.
--
-- Names of plans, leases and steps are kept as JSON strings, quotes and all: Postgres' text has no NUL, and
-- what is hashed is the JSON anyway.
--
-- There are no partitions. The heap grows at its end only, every question is answered by a range of one index,
-- and vacuum has nothing to do but to freeze what was added since the last time.
CREATE TABLE provost.plan (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    -- Where its chain ends.
    seq bigint NOT NULL,
    hash bytea NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE provost.event (
    id bigint PRIMARY KEY,
    plan bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    step bigint,
    task_name text COLLATE "C",
    details text COLLATE "C" NOT NULL,
    prev bytea NOT NULL,
    hash bytea NOT NULL,
    UNIQUE (plan, seq)
) WITH (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000000);

CREATE INDEX event_time ON provost.event (at_ms, id);

-- The events every step has are dense: a walk by id finds them. Only the others need an index.
CREATE INDEX event_unusual ON provost.event (name, id) WHERE name NOT IN
    ('TASK_STARTED', 'STEP_CLAIMED', 'ATTEMPT_ENDED', 'CONTRACT_JUDGED', 'TASK_COMPLETED');

-- Wake-ups that were committed with events and not taken yet.
CREATE TABLE provost.wake (plan text COLLATE "C" PRIMARY KEY);

-- Who holds what until when, by the clock of the database. The epoch is what a fence is compared with.
CREATE TABLE provost.lease (
    name text COLLATE "C" PRIMARY KEY,
    epoch bigint NOT NULL,
    holder text,
    expires timestamptz NOT NULL
) WITH (fillfactor = 70);

-- Has no rows. Whoever writes events has it locked, and nobody but the functions below can lock it.
CREATE TABLE provost.turn ();

CREATE FUNCTION provost.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the log is append-only' USING ERRCODE = 'PV004';
END $$;
CREATE TRIGGER event_is_never_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON provost.event
    FOR EACH STATEMENT EXECUTE FUNCTION provost.refuse();
CREATE TRIGGER plan_is_never_removed BEFORE DELETE OR TRUNCATE ON provost.plan
    FOR EACH STATEMENT EXECUTE FUNCTION provost.refuse();

-- The object that is hashed, as `chain.rs` of provost-core writes it.
CREATE FUNCTION provost.object(plan text, seq bigint, at_ms bigint, name text, step bigint, task_name text,
                               details text, prev bytea) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT '{"details":' || details || ',"event":' || to_json(name)::text || ',"plan":' || plan
        || ',"prev":"' || encode(prev, 'hex') || '","seq":' || seq
        || ',"task_id":' || coalesce('"task_' || step || '"', 'null')
        || ',"task_name":' || coalesce(task_name, 'null') || ',"timestamp":"'
        || to_char(timestamp 'epoch' + (least(at_ms, 253402300799999) / 1000) * interval '1 second',
                   'YYYY-MM-DD"T"HH24:MI:SS')
        || '.' || lpad((least(at_ms, 253402300799999) % 1000)::text, 3, '0') || 'Z"}'
$$;

-- One text, one way to write it: otherwise two rows could be read as one plan. NUL is the one character that
-- Postgres cannot write back.
CREATE FUNCTION provost.is_quoted(said text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    has_nul boolean := position('\u0000' IN replace(said, '\\', '')) > 0;
    plain text := CASE WHEN has_nul THEN replace(said, '\u0000', '') ELSE said END;
BEGIN
    RETURN json_typeof(said::json) = 'string' AND to_json(plain::json #>> '{}')::text = plain;
END $$;

CREATE FUNCTION provost.has_role(role text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = role AND pg_has_role(session_user, oid, 'USAGE'))
$$;

CREATE FUNCTION provost.is_owner() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT pg_has_role(session_user, nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'provost'
$$;

-- The three doors. Who owns the schema has all of them, for a log that has one user.
CREATE FUNCTION provost.may_say(event text, details text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    is_a_persons boolean := event IN ('GATE_REJECTED', 'GATE_QUESTION_ASKED', 'HUMAN_ANSWERED')
        OR event = 'GATE_APPROVED' AND (details::json #> '{by,policy}') IS NULL;
    is_a_runs boolean := event IN ('ISOLATION_ATTESTED', 'TASK_STARTED', 'ATTEMPT_ENDED', 'ATTEMPT_LOST',
                                   'CONTRACT_JUDGED');
    is_a_workers boolean := is_a_runs OR event IN ('STEP_CLAIMED', 'TASK_COMPLETED', 'TASK_FAILED',
        'FAILURE_DETECTED', 'FAILURE_CLASSIFIED', 'RECOVERY_APPLIED', 'PERMISSION_REQUIRED',
        'RECOVERY_ESCALATION', 'BUDGET_EXCEEDED', 'TAMPER_DETECTED');
BEGIN
    RETURN provost.is_owner()
        OR provost.has_role('provost_harness') AND NOT is_a_persons
        OR provost.has_role('provost_person') AND NOT is_a_runs
        OR provost.has_role('provost_worker') AND is_a_workers;
END $$;

-- Writes events that continue the chain of their plan, or nothing. Returns where the log ends then.
--   PV001  the chain does not end where the writer thinks; the detail says where
--   PV002  the fence is stale; the detail is the epoch now
--   PV003  a seal does not fit
CREATE FUNCTION provost.append(
    p_plan text, p_expected bigint, p_fence text, p_epoch bigint,
    p_at bigint[], p_names text[], p_steps bigint[], p_tasks text[], p_details text[], p_hashes bytea[],
    p_wakes text[]
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    plan_row bigint;
    head_seq bigint;
    head_hash bytea;
    epoch_now bigint;
    place bigint;
    many int := coalesce(cardinality(p_names), 0);
BEGIN
    -- Each look below must see what was committed while this one waited for its turn.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'events are written at isolation level read committed only';
    END IF;
    FOR i IN 1 .. many LOOP
        IF NOT provost.may_say(p_names[i], p_details[i]) THEN
            RAISE EXCEPTION 'the role % may not say %', session_user, p_names[i]
                USING ERRCODE = 'insufficient_privilege';
        END IF;
    END LOOP;
    IF p_fence IS NOT NULL THEN
        SELECT epoch INTO epoch_now FROM provost.lease WHERE name = p_fence FOR SHARE;
        IF coalesce(epoch_now, 0) <> p_epoch THEN
            RAISE EXCEPTION 'fenced' USING ERRCODE = 'PV002', DETAIL = coalesce(epoch_now, 0)::text;
        END IF;
    END IF;
    LOCK TABLE provost.turn IN EXCLUSIVE MODE;
    SELECT id, seq, hash INTO plan_row, head_seq, head_hash FROM provost.plan WHERE name = p_plan;
    IF coalesce(head_seq, 0) <> p_expected THEN
        RAISE EXCEPTION 'conflict' USING ERRCODE = 'PV001', DETAIL = coalesce(head_seq, 0)::text;
    END IF;
    SELECT coalesce(max(id), 0) INTO place FROM provost.event;
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
            IF json_typeof(p_details[i]::json) <> 'object'
                OR p_tasks[i] IS NOT NULL AND NOT provost.is_quoted(p_tasks[i])
                OR p_hashes[i] IS DISTINCT FROM sha256(convert_to(provost.object(p_plan, head_seq, p_at[i],
                    p_names[i], p_steps[i], p_tasks[i], p_details[i], head_hash), 'UTF8')) THEN
                RAISE EXCEPTION 'the seal of event % does not fit', head_seq USING ERRCODE = 'PV003';
            END IF;
            INSERT INTO provost.event (id, plan, seq, at_ms, name, step, task_name, details, prev, hash)
            VALUES (place, plan_row, head_seq, p_at[i], p_names[i], p_steps[i], p_tasks[i], p_details[i],
                    head_hash, p_hashes[i]);
            head_hash := p_hashes[i];
        END LOOP;
        UPDATE provost.plan SET seq = head_seq, hash = head_hash WHERE id = plan_row;
        PERFORM pg_notify('provost', place::text);
    END IF;
    INSERT INTO provost.wake SELECT DISTINCT unnest(p_wakes) ON CONFLICT DO NOTHING;
    RETURN place;
END $$;

CREATE FUNCTION provost.take_wakes() RETURNS SETOF text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM provost.wake RETURNING plan
$$;

-- Takes a lease that nobody holds, that ran out, or whose holding `p_over` is known to be dead, which nobody but
-- the harness is believed. Says the epoch of the new holding, or nothing and who has it.
CREATE FUNCTION provost.take_lease(p_name text, p_holder text, p_ttl_ms bigint, p_over bigint,
                                   OUT taken bigint, OUT held bigint, OUT holder text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    dead bigint := CASE WHEN provost.is_owner() OR provost.has_role('provost_harness') THEN p_over END;
BEGIN
    INSERT INTO provost.lease AS l (name, epoch, holder, expires)
    VALUES (p_name, 1, p_holder, clock_timestamp() + p_ttl_ms * interval '1 millisecond')
    ON CONFLICT (name) DO UPDATE SET epoch = l.epoch + 1, holder = excluded.holder, expires = excluded.expires
        WHERE l.holder IS NULL OR l.expires <= clock_timestamp() OR l.epoch = dead
    RETURNING l.epoch INTO taken;
    IF taken IS NULL THEN
        SELECT l.epoch, l.holder INTO held, holder FROM provost.lease l WHERE l.name = p_name;
    END IF;
END $$;

-- True while this holding is the last one.
CREATE FUNCTION provost.renew_lease(p_name text, p_epoch bigint, p_ttl_ms bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE provost.lease SET expires = clock_timestamp() + p_ttl_ms * interval '1 millisecond'
    WHERE name = p_name AND epoch = p_epoch AND holder IS NOT NULL;
    RETURN FOUND;
END $$;

CREATE FUNCTION provost.release_lease(p_name text, p_epoch bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE provost.lease SET holder = NULL WHERE name = p_name AND epoch = p_epoch;
    RETURN FOUND;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA provost FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA provost FROM PUBLIC;
