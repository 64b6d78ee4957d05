-- The log. `id` is the order in which events were written, across plans, and the cursor of followers:
-- a rowid table makes the tail and the append cheap, and plans are replayed through their own index.
CREATE TABLE plan (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE event (
    id INTEGER PRIMARY KEY,
    plan INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    name TEXT NOT NULL,
    step INTEGER,
    task_name TEXT,
    details TEXT NOT NULL,
    prev BLOB NOT NULL,
    hash BLOB NOT NULL,
    UNIQUE (plan, seq)
) STRICT;

CREATE INDEX event_time ON event (at_ms);

-- The events every step has are dense: a walk by id finds them. Only the others need an index, and
-- so a passing step does not pay for it.
CREATE INDEX event_unusual ON event (name) WHERE name NOT IN
    ('TASK_STARTED', 'STEP_CLAIMED', 'ATTEMPT_ENDED', 'CONTRACT_JUDGED', 'TASK_COMPLETED');

CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER event_is_never_removed BEFORE DELETE ON event
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER plan_is_never_changed BEFORE UPDATE ON plan
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER plan_is_never_removed BEFORE DELETE ON plan
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;

-- Wake-ups that were committed with events and not taken yet.
CREATE TABLE wake (plan TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- How often each lease was taken: what a fence is compared with.
CREATE TABLE lease (name TEXT PRIMARY KEY, epoch INTEGER NOT NULL) STRICT, WITHOUT ROWID;
