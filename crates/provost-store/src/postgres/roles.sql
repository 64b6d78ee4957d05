-- The roles of the doors, and one that only looks. They log nobody in; grant them to those who do. A role that is
-- missing and may not be made is passed over; it gets its rights when `migrate` runs again after somebody made it.
DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['provost_harness', 'provost_person', 'provost_gateway', 'provost_worker',
                                'provost_agents', 'provost_reader', 'provost_operator'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            CONTINUE WHEN NOT (SELECT rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user);
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA provost TO %I', role);
        EXECUTE format('GRANT SELECT ON provost.migration, provost.plan, provost.event, provost.wake,
                        provost.lease, provost.checker, provost.policy, provost.broken_lease, provost.archived,
                        provost.archive_file, provost.channel,
                        provost.budget, provost.used, provost.budget_wait TO %I', role);
        EXECUTE format('GRANT EXECUTE ON FUNCTION provost.own_name, provost.my_rights, provost.log_end TO %I', role);
        IF role NOT IN ('provost_reader', 'provost_operator') THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION provost.append, provost.take_lease, provost.renew_lease,
                            provost.release_lease, provost.waits_for_budget TO %I', role);
        END IF;
        IF role IN ('provost_person', 'provost_gateway') THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION provost.break_lease, provost.trust_checker,
                            provost.distrust_checker, provost.trust_policy TO %I', role);
        END IF;
        IF role = 'provost_operator' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION provost.set_budget, provost.count_plans TO %I', role);
        END IF;
        IF role = 'provost_harness' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION provost.take_wakes TO %I', role);
        END IF;
    END LOOP;
END $$;
