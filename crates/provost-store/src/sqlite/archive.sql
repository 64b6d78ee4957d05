-- What was moved to cold files. An archiving takes a place in the log, so that no place is used twice when the
-- newest event was archived.
CREATE TABLE archive_file (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    folder BLOB NOT NULL,
    at_ms INTEGER NOT NULL,
    place INTEGER NOT NULL UNIQUE
) STRICT;

-- Events of one plan in a cold file: where its chain began and ended, and where they are.
CREATE TABLE archived (
    plan INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    prev BLOB NOT NULL,
    last_hash BLOB NOT NULL,
    file INTEGER NOT NULL,
    start INTEGER NOT NULL,
    length INTEGER NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (plan, last_seq)
) STRICT, WITHOUT ROWID;

-- Only an event leaves the log whose plan is archived up to it or further, and only if the chain ended there.
DROP TRIGGER event_is_never_removed;
CREATE TRIGGER event_is_never_removed BEFORE DELETE ON event
    WHEN NOT EXISTS (SELECT 1 FROM archived
                     WHERE plan = OLD.plan AND last_seq >= OLD.seq AND first_seq <= OLD.seq)
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER archived_is_the_end_of_a_chain BEFORE INSERT ON archived
    WHEN NEW.first_seq > NEW.last_seq
        OR EXISTS (SELECT 1 FROM event WHERE plan = NEW.plan AND seq > NEW.last_seq)
        OR EXISTS (SELECT 1 FROM event WHERE plan = NEW.plan AND seq = NEW.last_seq AND hash <> NEW.last_hash)
        OR NEW.first_seq <> 1 + ifnull((SELECT max(last_seq) FROM archived WHERE plan = NEW.plan), 0)
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER archived_is_never_changed BEFORE UPDATE ON archived
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER archived_is_never_removed BEFORE DELETE ON archived
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER archive_file_is_never_changed BEFORE UPDATE ON archive_file
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER archive_file_is_never_removed BEFORE DELETE ON archive_file
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
