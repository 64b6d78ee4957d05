-- What the cluster knows beside the log: who works, what was offered, what went wrong. All of it can be lost;
-- a look at every plan that is under way makes it again. Run once more where it is older than the program that
-- joins (`schema.rs`): every statement leaves alone what is there.
CREATE SCHEMA IF NOT EXISTS provost_cluster;

CREATE TABLE IF NOT EXISTS provost_cluster.wire (version text NOT NULL);

-- Which form of this file was run last.
CREATE TABLE IF NOT EXISTS provost_cluster.made (revision int NOT NULL);

CREATE TABLE IF NOT EXISTS provost_cluster.worker (
    id text PRIMARY KEY,
    host text NOT NULL,
    pid bigint NOT NULL,
    -- Nothing: any.
    roles text[],
    jobs int NOT NULL,
    labels text[] NOT NULL,
    program text NOT NULL,
    ttl_ms bigint NOT NULL,
    joined timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen timestamptz NOT NULL DEFAULT clock_timestamp(),
    drains boolean NOT NULL DEFAULT false
);

-- What was offered and is not done. Whoever takes it writes down by which lease; the row ends with what came of it.
CREATE TABLE IF NOT EXISTS provost_cluster.item (
    plan text NOT NULL,
    name text NOT NULL,
    id text NOT NULL UNIQUE,
    pool text NOT NULL,
    labels text[] NOT NULL,
    offered timestamptz NOT NULL DEFAULT clock_timestamp(),
    worker text,
    lease text,
    epoch bigint,
    taken timestamptz,
    PRIMARY KEY (plan, name)
);

-- Reports of those who had been taken over from.
CREATE TABLE IF NOT EXISTS provost_cluster.refused (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    plan text NOT NULL,
    item text NOT NULL,
    worker text NOT NULL,
    what text NOT NULL
);

-- Why a plan does not get on, as it was last seen.
CREATE TABLE IF NOT EXISTS provost_cluster.trouble (
    plan text PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    worker text NOT NULL,
    what text NOT NULL
);

CREATE SEQUENCE IF NOT EXISTS provost_cluster.number;

-- What waits for its time is asked for every second, by the SDK too.
CREATE INDEX IF NOT EXISTS provost_cluster_delayed ON dbos.workflow_status (delay_until_epoch_ms)
    WHERE status = 'DELAYED';

-- Something is on this queue, or will be: those who listen look at once, and at its time.
CREATE OR REPLACE FUNCTION provost_cluster.ring(p_queue text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify((SELECT name || '_cluster' FROM provost.channel), p_queue);
$$;

-- A look at a plan that waits is found by its plan.
CREATE INDEX IF NOT EXISTS provost_cluster_looks ON dbos.workflow_status (queue_partition_key)
    WHERE queue_name = 'ticks' AND status IN ('ENQUEUED', 'DELAYED');

-- Somebody is to look at the plan: now, or at this time. A look that waits already is enough: it is locked until
-- this transaction ends, so that it begins after that, and sees what was written.
CREATE OR REPLACE FUNCTION provost_cluster.wake(p_plan text, p_at_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM dbos.workflow_status
    WHERE queue_name = 'ticks' AND status IN ('ENQUEUED', 'DELAYED') AND queue_partition_key = p_plan
        AND application_version = (SELECT version FROM provost_cluster.wire)
        AND (status = 'ENQUEUED' OR delay_until_epoch_ms <= p_at_ms)
    LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        PERFORM dbos.enqueue_workflow('tick', 'ticks',
            positional_args => ARRAY[json_build_object('plan', p_plan)],
            workflow_id => 'tick ' || nextval('provost_cluster.number') || ' ' || p_plan,
            app_version => (SELECT version FROM provost_cluster.wire),
            queue_partition_key => p_plan,
            delay_until_epoch_ms => p_at_ms,
            application_name => 'provost');
    END IF;
    PERFORM provost_cluster.ring('ticks');
END $$;

-- Whether a machine with these labels has all that are asked for: `gpu` is asked for `gpu` and for `gpu=…`, as in
-- `labels.rs` of provost-core.
CREATE OR REPLACE FUNCTION provost_cluster.fits(p_labels text[], p_asked text[]) RETURNS boolean LANGUAGE sql AS $$
    SELECT NOT EXISTS (SELECT FROM unnest(p_asked) AS a WHERE NOT EXISTS (
        SELECT FROM unnest(p_labels) AS l WHERE l = a OR position('=' IN a) = 0 AND split_part(l, '=', 1) = a))
$$;

-- Puts an item on its queue, under a number of its own: what is left of an earlier try is another's.
CREATE OR REPLACE FUNCTION provost_cluster.enqueue(p_plan text, p_name text, p_pool text, p_id text, p_delay_ms bigint)
RETURNS void LANGUAGE sql AS $$
    SELECT dbos.enqueue_workflow('item', 'items ' || p_pool,
        positional_args => ARRAY[json_build_object('plan', p_plan, 'item', p_name, 'id', p_id)],
        workflow_id => p_id,
        app_version => (SELECT version FROM provost_cluster.wire),
        delay_until_epoch_ms => CASE WHEN p_delay_ms > 0
            THEN (extract(epoch FROM clock_timestamp()) * 1000)::bigint + p_delay_ms END,
        application_name => 'provost');
    SELECT provost_cluster.ring('items ' || p_pool);
$$;

CREATE OR REPLACE FUNCTION provost_cluster.offer(p_plan text, p_name text, p_pool text, p_labels text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    number text := 'item ' || nextval('provost_cluster.number') || ' ' || p_plan;
BEGIN
    INSERT INTO provost_cluster.item (plan, name, id, pool, labels)
    VALUES (p_plan, p_name, number, p_pool, string_to_array(p_labels, ','))
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- A role that nobody has worked for yet has the limits of those who judge.
    INSERT INTO dbos.queues (name, worker_concurrency, polling_interval_sec, application_name)
    SELECT 'items ' || p_pool, worker_concurrency, polling_interval_sec, application_name
    FROM dbos.queues WHERE name = 'items judge'
    ON CONFLICT DO NOTHING;
    PERFORM provost_cluster.enqueue(p_plan, p_name, p_pool, number, 0);
END $$;

-- The same by a worker that goes on with a plan: it has the item at once, and no queue knows of it. A limit is kept
-- by a queue, which counts what came by it.
CREATE OR REPLACE FUNCTION provost_cluster.offer_here(p_plan text, p_name text, p_pool text, p_labels text,
                                                      p_worker text, p_lease text, p_epoch bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM dbos.queues WHERE name = 'items ' || p_pool
               AND (concurrency IS NOT NULL OR rate_limit_max IS NOT NULL)) THEN
        PERFORM provost_cluster.offer(p_plan, p_name, p_pool, p_labels);
        RETURN;
    END IF;
    INSERT INTO provost_cluster.item (plan, name, id, pool, labels, worker, lease, epoch, taken)
    VALUES (p_plan, p_name, 'item ' || nextval('provost_cluster.number') || ' ' || p_plan, p_pool,
            string_to_array(p_labels, ','), p_worker, p_lease, p_epoch, clock_timestamp())
    ON CONFLICT DO NOTHING;
END $$;

-- Taken by nobody so far, and now by this worker under this holding of the lease.
CREATE OR REPLACE FUNCTION provost_cluster.take(p_id text, p_worker text, p_lease text, p_epoch bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE provost_cluster.item
    SET worker = p_worker, lease = p_lease, epoch = p_epoch, taken = clock_timestamp()
    WHERE id = p_id AND worker IS NULL;
    RETURN FOUND;
END $$;

CREATE OR REPLACE FUNCTION provost_cluster.finish(p_plan text, p_name text) RETURNS void LANGUAGE sql AS $$
    DELETE FROM provost_cluster.item WHERE plan = p_plan AND name = p_name;
    DELETE FROM provost_cluster.trouble WHERE plan = p_plan;
$$;

-- The same for an item with a lease of its own. Nothing is written that belongs to it once the worker was declared
-- dead: its row is gone then, or is another's.
CREATE OR REPLACE FUNCTION provost_cluster.finish_own(p_plan text, p_name text, p_lease text, p_epoch bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    epoch_now bigint := (SELECT epoch FROM provost.lease WHERE name = p_lease AND holder IS NOT NULL);
BEGIN
    DELETE FROM provost_cluster.item
    WHERE plan = p_plan AND name = p_name AND lease = p_lease AND epoch = p_epoch AND p_epoch = epoch_now;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fenced' USING ERRCODE = 'PV002', DETAIL = coalesce(epoch_now, 0)::text;
    END IF;
    DELETE FROM provost_cluster.trouble WHERE plan = p_plan;
END $$;

-- What is in hand of a plan: the items, whether one of them was taken under the plan's lease, and how many items all
-- workers can run at a time.
CREATE OR REPLACE FUNCTION provost_cluster.in_hand(p_plan text, p_lease text, OUT items text[], OUT is_held boolean,
                                                   OUT slots bigint) LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(i.name), '{}'), coalesce(bool_or(i.lease = p_lease), false),
        (SELECT coalesce(sum(w.jobs), 0) FROM provost_cluster.worker w
         WHERE NOT w.drains AND w.seen > clock_timestamp() - w.ttl_ms * interval '1 millisecond')
    FROM provost_cluster.item i WHERE i.plan = p_plan
$$;

-- For somebody else, or for later: it was not taken.
CREATE OR REPLACE FUNCTION provost_cluster.give_back(p_id text, p_delay_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    number text;
    found_item provost_cluster.item;
BEGIN
    SELECT * INTO found_item FROM provost_cluster.item WHERE id = p_id AND worker IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    number := 'item ' || nextval('provost_cluster.number') || ' ' || found_item.plan;
    UPDATE provost_cluster.item SET id = number WHERE id = p_id;
    PERFORM provost_cluster.enqueue(found_item.plan, found_item.name, found_item.pool, number, p_delay_ms);
END $$;

-- A wake-up that was written with events, by whoever wrote them, becomes a look at the plan.
CREATE OR REPLACE FUNCTION provost_cluster.woken() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM provost_cluster.wake(NEW.plan::json #>> '{}', NULL);
    DELETE FROM provost.wake WHERE plan = NEW.plan;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER somebody_looks AFTER INSERT ON provost.wake
    FOR EACH ROW EXECUTE FUNCTION provost_cluster.woken();

-- Ends what the dead left: items whose lease has run out, items that no queue knows any more, looks that were
-- begun. Every plan it is about is looked at again. Rows of the dead hold no place in a queue.
CREATE OR REPLACE FUNCTION provost_cluster.sweep(OUT lost bigint, OUT gone bigint) LANGUAGE plpgsql AS $$
DECLARE
    woken text[];
    dead text[];
    more text[];
BEGIN
    lost := 0;
    gone := 0;
    -- One worker at a time. No advisory lock: everybody in the database can hold one.
    PERFORM FROM provost_cluster.wire FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT array_agg(id) INTO dead FROM provost_cluster.worker
    WHERE seen < clock_timestamp() - ttl_ms * interval '1 millisecond';
    gone := coalesce(cardinality(dead), 0);
    WITH over AS (
        DELETE FROM provost_cluster.item i
        WHERE i.worker IS NOT NULL AND NOT EXISTS (
            SELECT FROM provost.lease l
            WHERE l.name = i.lease AND l.epoch = i.epoch AND l.holder IS NOT NULL AND l.expires > clock_timestamp())
        RETURNING i.plan, i.id)
    SELECT array_agg(plan), count(*) INTO woken, lost FROM over;
    -- Claimed from the queue by somebody who died before taking it.
    WITH over AS (
        DELETE FROM provost_cluster.item i
        WHERE i.worker IS NULL AND NOT EXISTS (
            SELECT FROM dbos.workflow_status w
            WHERE w.workflow_uuid = i.id AND (w.status IN ('ENQUEUED', 'DELAYED')
                OR w.status = 'PENDING' AND w.executor_id <> ALL (coalesce(dead, '{}'))
                    AND EXISTS (SELECT FROM provost_cluster.worker k WHERE k.id = w.executor_id)))
        RETURNING i.plan)
    SELECT array_agg(plan) INTO more FROM over;
    woken := woken || more;
    WITH over AS (
        UPDATE dbos.workflow_status w
        SET status = 'CANCELLED', completed_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
        WHERE w.application_name = 'provost' AND w.status = 'PENDING'
            AND (w.executor_id = ANY (dead)
                OR NOT EXISTS (SELECT FROM provost_cluster.worker k WHERE k.id = w.executor_id))
        RETURNING w.queue_name, w.queue_partition_key)
    SELECT array_agg(queue_partition_key) FILTER (WHERE queue_name = 'ticks') INTO more FROM over;
    woken := woken || more;
    DELETE FROM provost_cluster.worker WHERE id = ANY (dead);
    PERFORM provost_cluster.wake(plan, NULL) FROM (SELECT DISTINCT unnest(woken) AS plan) AS plans
    WHERE plan IS NOT NULL;
    -- Many plans that wait are found one by one, along an index that the planner chooses only where it knows of them.
    IF (SELECT count(*) FROM (SELECT FROM dbos.workflow_status WHERE queue_name = 'ticks' AND status = 'ENQUEUED'
                              LIMIT 200) AS many) = 200
        AND EXISTS (SELECT FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
                    WHERE s.relid = 'dbos.workflow_status'::regclass AND s.n_mod_since_analyze > 500
                        AND pg_has_role(c.relowner, 'USAGE')) THEN
        ANALYZE dbos.workflow_status;
    END IF;
    DELETE FROM dbos.workflow_status WHERE workflow_uuid IN (
        SELECT workflow_uuid FROM dbos.workflow_status
        WHERE completed_at < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 600000
            AND application_name = 'provost'
        LIMIT 1000);
END $$;

-- Whether there is something for this worker to do on its queues (nothing: on all), and else in how long there will
-- be. `p_begun` are the rows that it has begun and not ended; one that has no hand free takes no items.
CREATE OR REPLACE FUNCTION provost_cluster.stirs(p_worker text, p_queues text[], p_begun text[], p_full boolean,
                                                 OUT stirs boolean, OUT next_ms bigint) LANGUAGE plpgsql AS $$
DECLARE
    now_ms bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    spoken text := (SELECT version FROM provost_cluster.wire);
BEGIN
    SELECT min(delay_until_epoch_ms) - now_ms INTO next_ms FROM dbos.workflow_status
    WHERE status = 'DELAYED' AND application_version = spoken
        AND (p_queues IS NULL OR queue_name = ANY (p_queues)) AND (NOT p_full OR queue_name = 'ticks');
    stirs := coalesce(next_ms <= 0, false)
        OR EXISTS (SELECT FROM dbos.workflow_status WHERE status = 'ENQUEUED' AND application_version = spoken
            AND (p_queues IS NULL OR queue_name = ANY (p_queues)) AND (NOT p_full OR queue_name = 'ticks'))
        OR EXISTS (SELECT FROM dbos.workflow_status WHERE status = 'PENDING' AND executor_id = p_worker
            AND workflow_uuid <> ALL (p_begun));
END $$;

-- A worker says that it is there, and looks after the others. Answers which items it still holds.
CREATE OR REPLACE FUNCTION provost_cluster.beat(p_id text, p_host text, p_pid bigint, p_roles text[], p_jobs int,
                                                p_labels text[], p_program text, p_ttl_ms bigint, p_drains boolean,
                                                p_queues text[], p_begun text[], p_full boolean,
                                                OUT ours text[], OUT lost bigint, OUT gone bigint, OUT stirs boolean)
LANGUAGE plpgsql AS $$
DECLARE
    now_ms bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    again text[];
    is_new boolean;
BEGIN
    INSERT INTO provost_cluster.worker (id, host, pid, roles, jobs, labels, program, ttl_ms, drains)
    VALUES (p_id, p_host, p_pid, p_roles, p_jobs, p_labels, p_program, p_ttl_ms, p_drains)
    ON CONFLICT (id) DO UPDATE SET seen = clock_timestamp(), drains = excluded.drains
    RETURNING xmax = 0 INTO is_new;
    -- Items that wait for a worker like this one wait no longer.
    IF is_new THEN
        UPDATE dbos.workflow_status w SET delay_until_epoch_ms = now_ms
        WHERE w.status = 'DELAYED' AND w.name = 'item' AND w.delay_until_epoch_ms > now_ms
            AND EXISTS (SELECT FROM provost_cluster.item i WHERE i.id = w.workflow_uuid AND i.worker IS NULL
                AND provost_cluster.fits(p_labels, i.labels) AND (p_roles IS NULL OR i.pool = ANY (p_roles)));
    END IF;
    SELECT coalesce(array_agg(i.id), '{}') INTO ours FROM provost_cluster.item i WHERE i.worker = p_id;
    -- Claimed for it and never begun: the SDK could not read what it had claimed. What becomes of items the sweep sees.
    WITH over AS (
        UPDATE dbos.workflow_status w SET status = 'CANCELLED', completed_at = now_ms
        WHERE w.status = 'PENDING' AND w.executor_id = p_id AND w.workflow_uuid <> ALL (p_begun)
            AND w.started_at_epoch_ms < now_ms - p_ttl_ms
        RETURNING w.queue_name, w.queue_partition_key)
    SELECT array_agg(DISTINCT queue_partition_key) INTO again FROM over WHERE queue_name = 'ticks';
    PERFORM provost_cluster.wake(plan, NULL) FROM unnest(again) AS plan;
    SELECT s.lost, s.gone INTO lost, gone FROM provost_cluster.sweep() s;
    SELECT s.stirs INTO stirs FROM provost_cluster.stirs(p_id, p_queues, p_begun, p_full) s;
END $$;
