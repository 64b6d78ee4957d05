-- Those who may write to the log as the harness or as a worker use the queues, too. A person's word comes in by the
-- trigger.
DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['provost_harness', 'provost_worker', 'provost_agents'] LOOP
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            EXECUTE format('GRANT USAGE ON SCHEMA provost_cluster, dbos TO %I', role);
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA provost_cluster, dbos
                            TO %I', role);
            EXECUTE format('GRANT USAGE ON ALL SEQUENCES IN SCHEMA provost_cluster, dbos TO %I', role);
            EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA provost_cluster, dbos TO %I', role);
        END IF;
    END LOOP;
END $$;
