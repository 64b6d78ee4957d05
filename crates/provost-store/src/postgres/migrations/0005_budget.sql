-- A budget of all plans of the log, and what they have used. Amounts are those of `UsageLedger`; provost computes them
-- and says them with its events.

-- The newest row is the budget. Rows are never changed, so they say who set which budget when.
CREATE TABLE provost.budget (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    login text COLLATE "C" NOT NULL,
    -- Nothing: no limit.
    tokens bigint CHECK (tokens >= 0),
    micro_usd bigint CHECK (micro_usd >= 0)
);
CREATE TRIGGER budget_is_never_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON provost.budget
    FOR EACH STATEMENT EXECUTE FUNCTION provost.refuse();

-- What a plan has used, and the last of its events that this includes. It stays when the plan is archived.
ALTER TABLE provost.plan
    ADD COLUMN tokens bigint NOT NULL DEFAULT 0 CHECK (tokens >= 0),
    ADD COLUMN micro_usd bigint NOT NULL DEFAULT 0 CHECK (micro_usd >= 0),
    ADD COLUMN counted_seq bigint NOT NULL DEFAULT 0;

-- The sum over all plans. One row.
CREATE TABLE provost.used (tokens numeric NOT NULL, micro_usd numeric NOT NULL) WITH (fillfactor = 10);
INSERT INTO provost.used VALUES (0, 0);

-- Plans that wait until the budget is raised.
CREATE TABLE provost.budget_wait (plan text COLLATE "C" PRIMARY KEY);

CREATE FUNCTION provost.is_over_budget() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT u.tokens >= b.tokens OR u.micro_usd >= b.micro_usd
                     FROM provost.budget b, provost.used u ORDER BY b.id DESC LIMIT 1), false)
$$;

-- The plans that wait are looked at again, if the budget allows it now.
CREATE FUNCTION provost.end_budget_waits() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM provost.budget_wait) AND NOT provost.is_over_budget() THEN
        INSERT INTO provost.wake SELECT plan FROM provost.budget_wait ON CONFLICT DO NOTHING;
        DELETE FROM provost.budget_wait;
    END IF;
END $$;

-- Whether no attempt at a step of this plan may begin. If so, the plan waits.
CREATE FUNCTION provost.waits_for_budget(p_plan text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT provost.is_over_budget() THEN
        RETURN false;
    END IF;
    -- Whoever changes the budget or lowers a sum has done so before this, or sees this plan among those that wait.
    LOCK TABLE provost.budget_wait IN SHARE ROW EXCLUSIVE MODE;
    IF NOT provost.is_over_budget() THEN
        RETURN false;
    END IF;
    INSERT INTO provost.budget_wait VALUES (p_plan) ON CONFLICT DO NOTHING;
    RETURN true;
END $$;

-- Replaces what counts of a plan in the sum. Called before its row is changed, and while no other writer writes.
CREATE FUNCTION provost.count_usage(p_plan bigint, p_tokens bigint, p_micro_usd bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    before provost.plan;
BEGIN
    SELECT * INTO before FROM provost.plan WHERE id = p_plan;
    IF p_tokens IS NULL OR p_micro_usd IS NULL OR (before.tokens, before.micro_usd) = (p_tokens, p_micro_usd) THEN
        RETURN;
    END IF;
    UPDATE provost.used
    SET tokens = tokens + p_tokens - before.tokens, micro_usd = micro_usd + p_micro_usd - before.micro_usd;
    IF p_tokens < before.tokens OR p_micro_usd < before.micro_usd THEN
        LOCK TABLE provost.budget_wait IN SHARE ROW EXCLUSIVE MODE;
        PERFORM provost.end_budget_waits();
    END IF;
END $$;

CREATE FUNCTION provost.only_operators() RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT (provost.is_owner() OR provost.has_role('provost_operator')) THEN
        RAISE EXCEPTION 'the role % is no operator', session_user USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;

-- Sets the budget; without both limits, there is none.
CREATE FUNCTION provost.set_budget(p_tokens bigint, p_micro_usd bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM provost.only_operators();
    LOCK TABLE provost.budget_wait IN SHARE ROW EXCLUSIVE MODE;
    INSERT INTO provost.budget (login, tokens, micro_usd) VALUES (session_user, p_tokens, p_micro_usd);
    PERFORM provost.end_budget_waits();
END $$;

-- Counts plans whose last events came without an amount: they are of an earlier program, or of another log. One that
-- went on meanwhile is left out.
CREATE FUNCTION provost.count_plans(p_plans text[], p_seqs bigint[], p_tokens bigint[], p_micro_usd bigint[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known provost.plan;
BEGIN
    PERFORM provost.only_operators();
    LOCK TABLE provost.turn IN EXCLUSIVE MODE;
    FOR i IN 1 .. cardinality(p_plans) LOOP
        SELECT * INTO known FROM provost.plan WHERE name = p_plans[i];
        IF known.seq = p_seqs[i] AND known.counted_seq < known.seq THEN
            PERFORM provost.count_usage(known.id, p_tokens[i], p_micro_usd[i]);
            UPDATE provost.plan SET tokens = p_tokens[i], micro_usd = p_micro_usd[i], counted_seq = seq
            WHERE id = known.id;
        END IF;
    END LOOP;
END $$;

DROP FUNCTION provost.append(text, bigint, text, bigint, bigint[], text[], bigint[], text[], text[], bytea[], text[],
                             bytea, bytea, bytea[]);

-- The same as before, but it records what the plan has used so far, if the writer says it.
CREATE FUNCTION provost.append(
    p_plan text, p_expected bigint, p_fence text, p_epoch bigint,
    p_at bigint[], p_names text[], p_steps bigint[], p_tasks text[], p_details text[], p_hashes bytea[],
    p_wakes text[], p_token bytea DEFAULT NULL, p_signer bytea DEFAULT NULL, p_seals bytea[] DEFAULT NULL,
    p_tokens bigint DEFAULT NULL, p_micro_usd bigint DEFAULT NULL
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
        PERFORM provost.count_usage(plan_row, p_tokens, p_micro_usd);
        UPDATE provost.plan SET seq = head_seq, hash = head_hash, tokens = coalesce(p_tokens, tokens),
            micro_usd = coalesce(p_micro_usd, micro_usd),
            counted_seq = CASE WHEN p_tokens IS NULL THEN counted_seq ELSE head_seq END
        WHERE id = plan_row;
        PERFORM provost.notify(place);
    END IF;
    INSERT INTO provost.wake SELECT DISTINCT unnest(p_wakes) ON CONFLICT DO NOTHING;
    RETURN place;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA provost FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA provost FROM PUBLIC;
