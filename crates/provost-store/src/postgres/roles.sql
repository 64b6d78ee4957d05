-- The roles of the three doors, and one that only looks. They log nobody in; grant them to those who do.
DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['provost_harness', 'provost_person', 'provost_worker', 'provost_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA provost TO %I', role);
        EXECUTE format('GRANT SELECT ON provost.migration, provost.plan, provost.event, provost.wake,
                        provost.lease TO %I', role);
        IF role <> 'provost_reader' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION provost.append, provost.take_lease, provost.renew_lease,
                            provost.release_lease TO %I', role);
        END IF;
    END LOOP;
    GRANT EXECUTE ON FUNCTION provost.take_wakes TO provost_harness;
END $$;
