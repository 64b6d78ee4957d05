-- Nothing that a worker's login writes makes a step pass by itself. The database writes down which login wrote an
-- event; verdicts of a worker's login count only with the signature of a trusted key, which readers verify; a worker
-- writes under a lease that it holds; people speak under the name of their login.
ALTER TABLE provost.event
    ADD COLUMN login text COLLATE "C",
    -- Which rights the login had: owner, harness, person or worker. Nothing: written before this migration.
    ADD COLUMN writer text COLLATE "C",
    -- The key that signed the hash, and its signature.
    ADD COLUMN signer bytea,
    ADD COLUMN seal bytea;

-- The digest of a secret that only the process has that took the lease.
ALTER TABLE provost.lease ADD COLUMN login text COLLATE "C", ADD COLUMN token bytea;

-- Keys of workers whose checks count.
CREATE TABLE provost.checker (
    key bytea PRIMARY KEY CHECK (octet_length(key) = 32),
    name text COLLATE "C" NOT NULL,
    added timestamptz NOT NULL DEFAULT clock_timestamp(),
    added_by text COLLATE "C" NOT NULL
);

-- Policies that a person has trusted. A harness approves by no other.
CREATE TABLE provost.policy (
    digest text COLLATE "C" PRIMARY KEY,
    added timestamptz NOT NULL DEFAULT clock_timestamp(),
    added_by text COLLATE "C" NOT NULL
);

-- Leases that a person broke.
CREATE TABLE provost.broken_lease (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    login text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    holder text
);

-- The keys of every event, and their JSON types (s: string, n: whole number, b: boolean, o: object, a: array).
-- An event without a required key, or with a key of another type, could not be read.
CREATE TABLE provost.event_key (
    event text COLLATE "C",
    key text COLLATE "C",
    kind "char" NOT NULL,
    required boolean NOT NULL,
    PRIMARY KEY (event, key)
);
INSERT INTO provost.event_key
SELECT e.event, replace(pair[1], '?', ''), pair[2]::"char", right(pair[1], 1) <> '?'
FROM (VALUES
    ('PLAN_CREATED', 'text:s revision:s base?:s files?:a terms?:o included?:a task_count:n dependencies?:a drafting?:a author?:s'),
    ('PLAN_REWRITTEN', 'text:s revision:s base?:s files?:a terms?:o included?:a task_count:n dependencies?:a changes?:a author?:s'),
    ('PLAN_VERIFIED', 'revision:s warnings:n'),
    ('GATE_APPROVAL_REQUESTED', 'plan_id:s revision:s'),
    ('GATE_APPROVED', 'revision:s by:o modifications?:a missing?:n'),
    ('GATE_REJECTED', 'revision:s reason:s by:s'),
    ('GATE_QUESTION_ASKED', 'revision:s question:s by:s step?:n'),
    ('ISOLATION_ATTESTED', 'level:s require_red?:b probes?:a kernel?:s bubblewrap?:s agent_outside?:b took_over?:s'),
    ('TASK_STARTED', 'step:n attempt:n target:s reserved?:o start?:o'),
    ('STEP_CLAIMED', 'step:n evidence:s'),
    ('ATTEMPT_ENDED', 'step:n attempt:n end:o duration_ms:n report?:s notes?:a usage?:o session?:s asks?:s published?:a rewrites?:a carried?:o start?:o left?:s outside?:a transcript?:s'),
    ('ATTEMPT_LOST', 'step:n attempt:n cause:s left?:s'),
    ('CONTRACT_JUDGED', 'step?:n subject:o verdict:o plan?:s'),
    ('TASK_COMPLETED', 'step:n attempt:n result:s tree?:s pass?:s'),
    ('TASK_FAILED', 'step:n error:s'),
    ('TASK_WAIVED', 'step:n by:s reason:s'),
    ('FAILURE_DETECTED', 'step:n attempt:n error_message:s fingerprint?:s'),
    ('FAILURE_CLASSIFIED', 'step:n failure_type:s rule:s halts?:s of_the_check?:b'),
    ('RECOVERY_APPLIED', 'step:n recipe_name:s outcome:s not_before?:s wait_ms?:n check_again?:b role?:s fresh?:b'),
    ('PERMISSION_REQUIRED', 'step:n reason:s configure:a'),
    ('RECOVERY_ESCALATION', 'step?:n reason:s cause?:s'),
    ('BUDGET_EXCEEDED', 'step:n scope:s resource:s limit:o spent:o needed:o unknown?:n left:a estimate?:o'),
    ('HUMAN_ANSWERED', 'step?:n choice:s by:s note?:s budget?:o'),
    ('LAW_CHANGED', 'changes:a'),
    ('TAMPER_DETECTED', 'step?:n what:s from_seq?:n'),
    ('EXECUTION_COMPLETE', 'outcome:s summary:o tree?:s why?:s train?:o'),
    ('TRAIN_STARTED', 'target:s base:s plans:a'),
    ('PLAN_LANDED', 'plan:s target:s before:s commit:s'),
    ('LEASE_BROKEN', 'lease:s held_by:s by:s')
) AS e (event, keys), unnest(string_to_array(e.keys, ' ')) AS word,
LATERAL (SELECT string_to_array(word, ':') AS pair) AS p;

-- Nothing if the event can be read, and else what is wrong with it.
CREATE FUNCTION provost.malformed(p_event text, p_details text, p_step bigint, p_at bigint) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wrong text;
BEGIN
    IF NOT EXISTS (SELECT FROM provost.event_key WHERE event = p_event) THEN
        RETURN 'no event has this name';
    END IF;
    IF p_at IS NULL OR p_at < 0 OR p_step NOT BETWEEN 1 AND 4294967295 THEN
        RETURN 'its time or its step is out of range';
    END IF;
    IF json_typeof(p_details::json) IS DISTINCT FROM 'object' THEN
        RETURN 'its details are not an object';
    END IF;
    SELECT string_agg(coalesce(f.key, k.key), ', ') INTO wrong
    FROM (SELECT key, min(CASE json_typeof(value) WHEN 'number'
                   THEN CASE WHEN value::text ~ '^[0-9]{1,19}$' THEN 'n' ELSE '?' END
                   WHEN 'null' THEN '?' ELSE left(json_typeof(value), 1) END) AS kind, count(*) AS times
          FROM json_each(p_details::json) GROUP BY key) AS f
    FULL JOIN (SELECT * FROM provost.event_key WHERE event = p_event) AS k ON k.key = f.key
    WHERE f.times > 1 OR f.key IS NULL AND k.required OR f.kind <> k.kind::text;
    RETURN 'wrong or missing: ' || wrong;
END $$;

-- The rights of the login that speaks, the strongest first.
CREATE FUNCTION provost.writer() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN provost.is_owner() THEN 'owner'
        WHEN provost.has_role('provost_harness') THEN 'harness'
        WHEN provost.has_role('provost_person') OR provost.has_role('provost_gateway') THEN 'person'
        ELSE 'worker' END
$$;

-- Nothing if the login may speak for everybody that it names, and else the one name that it speaks for.
CREATE FUNCTION provost.own_name() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN provost.is_owner() OR provost.has_role('provost_gateway') THEN NULL ELSE session_user::text END
$$;

CREATE OR REPLACE FUNCTION provost.may_say(event text, details text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    is_by_policy boolean := event = 'GATE_APPROVED' AND (details::json #> '{by,policy}') IS NOT NULL;
    is_a_persons boolean := event IN ('GATE_REJECTED', 'GATE_QUESTION_ASKED', 'HUMAN_ANSWERED', 'LEASE_BROKEN')
        OR event = 'GATE_APPROVED' AND NOT is_by_policy;
    is_a_verdict boolean := event IN ('CONTRACT_JUDGED', 'TASK_COMPLETED');
    is_a_runs boolean := event IN ('ISOLATION_ATTESTED', 'TASK_STARTED', 'ATTEMPT_ENDED', 'ATTEMPT_LOST',
                                   'CONTRACT_JUDGED');
    is_a_workers boolean := is_a_runs OR event IN ('STEP_CLAIMED', 'TASK_COMPLETED', 'TASK_FAILED',
        'FAILURE_DETECTED', 'FAILURE_CLASSIFIED', 'RECOVERY_APPLIED', 'PERMISSION_REQUIRED',
        'RECOVERY_ESCALATION', 'BUDGET_EXCEEDED', 'TAMPER_DETECTED');
    is_person boolean := provost.has_role('provost_person') OR provost.has_role('provost_gateway');
    said text;
BEGIN
    IF provost.is_owner() THEN
        RETURN true;
    END IF;
    IF is_a_persons THEN
        said := CASE json_typeof(details::json -> 'by') WHEN 'string' THEN details::json ->> 'by'
            ELSE coalesce(details::json #>> '{by,person}', details::json #>> '{by,dialog,by}') END;
        IF said IS DISTINCT FROM coalesce(provost.own_name(), said) THEN
            RETURN false;
        END IF;
    END IF;
    RETURN provost.has_role('provost_harness') AND NOT is_a_persons
            AND (NOT is_by_policy OR is_person
                OR EXISTS (SELECT FROM provost.policy p WHERE p.digest = details::json #>> '{by,policy,digest}'))
        OR is_person AND NOT is_a_runs
        OR provost.has_role('provost_worker') AND is_a_workers
        OR provost.has_role('provost_agents') AND is_a_workers AND NOT is_a_verdict;
END $$;

-- Whether the caller holds the lease: it knows the secret, or an older program took it with the same login.
CREATE FUNCTION provost.holds(p_login text, p_digest bytea, p_token bytea) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_digest IS NULL THEN p_login IS NULL OR p_login = session_user
        ELSE coalesce(p_digest = sha256(p_token), false) END
$$;

DROP FUNCTION provost.append(text, bigint, text, bigint, bigint[], text[], bigint[], text[], text[], bytea[], text[]);

-- Writes events that continue the chain of their plan, or nothing. Returns where the log ends then.
--   PV001  the chain does not end where the writer thinks; the detail says where
--   PV002  the fence is stale or not the writer's; the detail is the epoch now
--   PV003  a seal does not fit, or nobody could read the event
CREATE FUNCTION provost.append(
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

DROP FUNCTION provost.take_lease(text, text, bigint, bigint);

-- Takes a lease that nobody holds, that ran out, or whose holding `p_over` is known to be dead, which only the owner
-- and a harness with the login of the dead are believed. Nobody has a lease for longer than an hour without renewing
-- it. Says the epoch of the new holding, or nothing and who has it.
CREATE FUNCTION provost.take_lease(p_name text, p_holder text, p_ttl_ms bigint, p_over bigint,
                                   p_digest bytea DEFAULT NULL,
                                   OUT taken bigint, OUT held bigint, OUT holder text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_owner boolean := provost.is_owner();
    dead bigint := CASE WHEN is_owner OR provost.has_role('provost_harness') THEN p_over END;
BEGIN
    INSERT INTO provost.lease AS l (name, epoch, holder, expires, login, token)
    VALUES (p_name, 1, p_holder, clock_timestamp() + least(p_ttl_ms, 3600000) * interval '1 millisecond',
            session_user, p_digest)
    ON CONFLICT (name) DO UPDATE SET epoch = l.epoch + 1, holder = excluded.holder, expires = excluded.expires,
            login = excluded.login, token = excluded.token
        WHERE l.holder IS NULL OR l.expires <= clock_timestamp()
            OR l.epoch = dead AND (is_owner OR l.login = session_user)
    RETURNING l.epoch INTO taken;
    IF taken IS NULL THEN
        SELECT l.epoch, l.holder INTO held, holder FROM provost.lease l WHERE l.name = p_name;
    END IF;
END $$;

DROP FUNCTION provost.renew_lease(text, bigint, bigint);

-- True while this holding is the last one.
CREATE FUNCTION provost.renew_lease(p_name text, p_epoch bigint, p_ttl_ms bigint, p_token bytea DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE provost.lease SET expires = clock_timestamp() + least(p_ttl_ms, 3600000) * interval '1 millisecond'
    WHERE name = p_name AND epoch = p_epoch AND holder IS NOT NULL AND provost.holds(login, token, p_token);
    RETURN FOUND;
END $$;

DROP FUNCTION provost.release_lease(text, bigint);

CREATE FUNCTION provost.release_lease(p_name text, p_epoch bigint, p_token bytea DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE provost.lease SET holder = NULL
    WHERE name = p_name AND epoch = p_epoch AND provost.holds(login, token, p_token);
    RETURN FOUND;
END $$;

CREATE FUNCTION provost.only_people() RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT (provost.is_owner() OR provost.has_role('provost_person') OR provost.has_role('provost_gateway')) THEN
        RAISE EXCEPTION 'the role % is not a person', session_user USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;

-- Takes a lease away from its holder, who cannot write or renew from then on. Says who that was; nothing if nobody.
CREATE FUNCTION provost.break_lease(p_name text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    broken provost.lease;
BEGIN
    PERFORM provost.only_people();
    SELECT * INTO broken FROM provost.lease WHERE name = p_name AND holder IS NOT NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE provost.lease SET epoch = epoch + 1, holder = NULL, token = NULL, login = NULL WHERE name = p_name;
    INSERT INTO provost.broken_lease (login, name, epoch, holder)
    VALUES (session_user, p_name, broken.epoch, broken.holder);
    RETURN broken.holder;
END $$;

CREATE FUNCTION provost.trust_checker(p_key bytea, p_name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM provost.only_people();
    INSERT INTO provost.checker (key, name, added_by) VALUES (p_key, p_name, session_user)
    ON CONFLICT (key) DO UPDATE SET name = excluded.name, added_by = excluded.added_by;
END $$;

-- From then on nothing counts that this key signed, also what it signed before.
CREATE FUNCTION provost.distrust_checker(p_key bytea) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM provost.only_people();
    DELETE FROM provost.checker WHERE key = p_key;
    RETURN FOUND;
END $$;

CREATE FUNCTION provost.trust_policy(p_digest text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM provost.only_people();
    INSERT INTO provost.policy (digest, added_by) VALUES (p_digest, session_user) ON CONFLICT DO NOTHING;
END $$;

-- What the login may do, for programs that ask before they begin.
CREATE FUNCTION provost.my_rights(OUT login text, OUT writer text, OUT may_judge boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT session_user::text, provost.writer(),
        provost.is_owner() OR provost.has_role('provost_harness') OR provost.has_role('provost_worker')
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA provost FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA provost FROM PUBLIC;
