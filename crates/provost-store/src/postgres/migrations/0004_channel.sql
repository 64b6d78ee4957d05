-- Channels of NOTIFY have no rights: everybody in the database can listen. So a log has its channel in a table, and
-- that of a project has a random name (`project.rs` writes the row). Without a project it is the channel that earlier
-- programs listen on.
CREATE TABLE provost.channel (name text COLLATE "C" NOT NULL);

-- Tells those who wait how far the log goes now.
CREATE FUNCTION provost.notify(p_place bigint) RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify((SELECT name FROM provost.channel), p_place::text)
$$;

-- The same functions as before, but for the channel.
DO $$
DECLARE
    function text;
    before text;
    after text;
BEGIN
    FOREACH function IN ARRAY ARRAY['provost.append', 'provost.archive'] LOOP
        before := pg_get_functiondef(function::regproc);
        after := replace(before, 'pg_notify(''provost'', place::text)', 'provost.notify(place)');
        IF after = before THEN
            RAISE EXCEPTION 'the function % does not notify', function;
        END IF;
        EXECUTE after;
    END LOOP;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA provost FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA provost FROM PUBLIC;
