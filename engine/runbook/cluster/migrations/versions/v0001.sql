-- What workers may do, as functions: each names the site of whoever calls it, and the epoch of the shard. A worker has no
-- other way to write, so that neither a fault of ours nor a stolen password of one site reaches another site's work.
-- Every statement in a volatile function sees what has been committed before it begins.

CREATE FUNCTION my_site() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
    SELECT name FROM site WHERE role = session_user
$$;

-- Whether workers of the site are at work on the run, or were a moment ago: then its shards may still be begun.
CREATE FUNCTION goes_on(of_run text, at_site text) RETURNS boolean
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
    SELECT EXISTS (SELECT FROM shard WHERE run = of_run AND site = at_site AND worker <> '' AND state IN ('working', 'done')
                       AND heartbeat > clock_timestamp() - interval '60 s')
$$;

-- Begins a shard: whether the caller has it. Nobody else has it then: `state` changes once for each epoch.
CREATE FUNCTION claim(of_run text, of_shard int, of_epoch int, by_worker text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
BEGIN
    UPDATE shard SET state = 'working', worker = by_worker, heartbeat = clock_timestamp()
        FROM run
        WHERE shard.run = of_run AND number = of_shard AND epoch = of_epoch AND state = 'waiting' AND site = my_site()
            AND (start_before > clock_timestamp() OR goes_on(of_run, site)) AND run.id = of_run AND run.ended IS NULL
            AND NOT EXISTS (SELECT FROM stop WHERE stop.run = of_run);
    RETURN FOUND;
END $$;

-- Says that the worker lives, and returns how urgently the run is to end, and why; nothing if the shard is no longer its.
CREATE FUNCTION beat(of_run text, of_shard int, of_epoch int, by_worker text) RETURNS TABLE (level int, why text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
BEGIN
    UPDATE shard SET heartbeat = clock_timestamp()
        WHERE run = of_run AND number = of_shard AND epoch = of_epoch AND state = 'working' AND worker = by_worker
            AND site = my_site();
    IF FOUND THEN
        RETURN QUERY SELECT coalesce(stop.level, 0), coalesce(stop.why, '')
            FROM run LEFT JOIN stop ON stop.run = run.id WHERE run.id = of_run;
    END IF;
END $$;

-- The hosts that runs of the playbook were permitted to change in so many seconds, without those of the run that asks. A site
-- learns the names of its own hosts, and only how many others there are.
CREATE FUNCTION changed_hosts(of_playbook text, besides text, of_seconds float) RETURNS SETOF text
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
    SELECT CASE WHEN my_site() IS NULL OR site = my_site() THEN host
                ELSE site || ' ' || rank() OVER (PARTITION BY site ORDER BY host) END
        FROM (SELECT DISTINCT permit.site, host FROM permit JOIN run ON run.id = permit.run
                  WHERE playbook = of_playbook AND run.id <> besides
                      AND permit.at > clock_timestamp() - make_interval(secs => of_seconds)) AS changed
$$;

-- Whether the limit `breaker` of the run allows one more host to be changed; held until the transaction ends.
CREATE FUNCTION breaker_allows(of_run text, on_host text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
DECLARE
    ours run%ROWTYPE;
BEGIN
    SELECT * INTO ours FROM run WHERE id = of_run AND breaker_hosts IS NOT NULL;
    IF NOT FOUND THEN RETURN true; END IF;
    PERFORM pg_advisory_xact_lock(hashtext('runbook breaker ' || ours.playbook));
    RETURN (SELECT count(DISTINCT host) FILTER (WHERE host <> on_host) FROM permit JOIN run ON run.id = permit.run
                WHERE playbook = ours.playbook
                    AND permit.at > clock_timestamp() - make_interval(secs => ours.breaker_within)) < ours.breaker_hosts;
END $$;

-- Permits one write: returns an empty text once for each run, host, step and command, and afterwards, or where the run is
-- to end or the shard is another's by now, why not. The locks on the rows make it wait for a stop or a new epoch that is
-- being committed, and those wait for it.
CREATE FUNCTION permit(of_run text, of_shard int, of_epoch int, by_worker text, on_host text, of_step text, of_command int,
                       in_words text, of_seconds float) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
DECLARE
    ours shard%ROWTYPE;
BEGIN
    SELECT * INTO ours FROM shard
        WHERE run = of_run AND number = of_shard AND epoch = of_epoch AND state = 'working' AND worker = by_worker
            AND site = my_site() AND phase = 'apply' AND on_host = ANY (hosts)
        FOR SHARE;
    IF NOT FOUND THEN RETURN 'epoch'; END IF;
    PERFORM FROM run WHERE id = of_run AND ended IS NULL FOR SHARE;
    IF NOT FOUND OR EXISTS (SELECT FROM stop WHERE run = of_run) THEN RETURN 'stopped'; END IF;
    IF NOT breaker_allows(of_run, on_host) THEN RETURN 'breaker'; END IF;
    INSERT INTO permit (run, host, step, command, shard, site, epoch, worker, words, seconds)
        VALUES (of_run, on_host, of_step, of_command, of_shard, ours.site, of_epoch, by_worker, in_words, of_seconds)
        ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN RETURN 'given'; END IF;
    RETURN '';
END $$;

-- Takes events and results in, in their order: [{"n": 1, "event": {...}}, {"n": 2, "result": {...}}, ...].
-- What was taken in before is left out. Events of an epoch that has passed are evidence, and no results.
CREATE FUNCTION ship(of_run text, of_shard int, of_epoch int, shipped jsonb) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
DECLARE
    ours shard%ROWTYPE;
    is_current boolean;
BEGIN
    SELECT * INTO ours FROM shard WHERE run = of_run AND number = of_shard AND epoch >= of_epoch AND site = my_site() FOR SHARE;
    IF NOT FOUND THEN RETURN false; END IF;
    INSERT INTO event (run, shard, epoch, number, site, content)
        SELECT of_run, of_shard, of_epoch, (one->>'n')::int, ours.site, one->'event'
            FROM jsonb_array_elements(shipped) AS given (one) WHERE jsonb_typeof(one->'event') = 'object'
        ON CONFLICT DO NOTHING;
    is_current := ours.epoch = of_epoch AND ours.state = 'working';
    IF is_current THEN
        INSERT INTO result (run, shard, host, epoch, number, site, content)
            SELECT of_run, of_shard, one->'result'->>'host', of_epoch, (one->>'n')::int, ours.site, one->'result'
                FROM jsonb_array_elements(shipped) AS given (one)
                WHERE jsonb_typeof(one->'result') = 'object' AND one->'result'->>'host' = ANY (ours.hosts)
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN is_current;
END $$;

-- Ends a shard: whether it was still the caller's.
CREATE FUNCTION finish(of_run text, of_shard int, of_epoch int, by_worker text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
BEGIN
    UPDATE shard SET state = 'done', heartbeat = clock_timestamp()
        WHERE run = of_run AND number = of_shard AND epoch = of_epoch AND state = 'working' AND worker = by_worker
            AND site = my_site();
    RETURN FOUND;
END $$;

-- Returns which hosts of the run may be changed, and holds it for the caller until its transaction ends. `gone`: the hosts
-- whose ends nobody has recorded and nobody will, because their worker fell silent or none began them: with their verdict,
-- if they have one, and whether they may have been changed. Those on which a command may still run are not among them.
CREATE FUNCTION rollout_of(of_run text, of_shard int, of_epoch int) RETURNS TABLE (turns json, gone jsonb)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
DECLARE
    kept json;
    stages jsonb;
BEGIN
    PERFORM FROM shard WHERE run = of_run AND number = of_shard AND epoch = of_epoch AND state = 'working' AND site = my_site()
        FOR SHARE;
    IF NOT FOUND THEN RETURN; END IF;
    SELECT state INTO kept FROM rollout WHERE run = of_run FOR UPDATE;
    stages := kept->'turns';
    RETURN QUERY SELECT kept, coalesce(jsonb_object_agg(host.name, jsonb_build_array(result.content->>'verdict', sent.epoch IS NOT NULL)), '{}')
        FROM shard CROSS JOIN unnest(hosts) AS host (name)
        LEFT JOIN result ON result.run = of_run AND result.shard = shard.number AND result.host = host.name
        LEFT JOIN LATERAL (
            SELECT max(permit.epoch) AS epoch, max(at + make_interval(secs => seconds + 30)) AS until
                FROM permit WHERE permit.run = of_run AND permit.host = host.name
        ) AS sent ON true
        WHERE shard.run = of_run AND phase = 'apply' AND stages->>host.name <> 'ENDED'
            AND (state = 'done' OR result.epoch < shard.epoch OR sent.epoch < shard.epoch)
            AND (sent.until IS NULL OR sent.until < clock_timestamp() OR result.content->>'verdict' <> 'unknown');
END $$;

CREATE FUNCTION keep_rollout(of_run text, of_shard int, of_epoch int, kept json) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
    UPDATE rollout SET state = kept WHERE run = of_run AND EXISTS (
        SELECT FROM shard WHERE run = of_run AND number = of_shard AND epoch = of_epoch AND state = 'working' AND site = my_site())
$$;

CREATE FUNCTION hello(by_worker text, of_version text, at_work int) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
    INSERT INTO worker (site, name, version, shards) VALUES (my_site(), by_worker, of_version, at_work)
        ON CONFLICT (site, name) DO UPDATE
        SET version = of_version, shards = at_work, heartbeat = clock_timestamp()
$$;

CREATE FUNCTION refuse(of_run text, by_worker text, because text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
    INSERT INTO refusal (site, run, worker, why) VALUES (my_site(), of_run, by_worker, because)
$$;

CREATE FUNCTION works_on(at_site text, of_run text) RETURNS boolean
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
    SELECT EXISTS (SELECT FROM shard WHERE run = of_run AND site = at_site AND state = 'working')
$$;

CREATE FUNCTION task_of(one shard) RETURNS procrastinate_job_to_defer_v1
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
    SELECT ROW (one.site, one.phase, -one.number, NULL, NULL,
                jsonb_build_object('run', one.run, 'shard', one.number, 'epoch', one.epoch), NULL
               )::procrastinate_job_to_defer_v1
$$;

-- Gives the shards of workers that have been silent to others, under a new epoch, and closes those that nobody has begun in
-- time: [seconds of silence, seconds to begin again, the most epochs]. A site settles its own and those of the runs that it
-- works on, a client all. Returns how many.
CREATE FUNCTION settle(silence float, again float, most int) RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
DECLARE
    one shard%ROWTYPE;
    settled int := 0;
    mine text := my_site();
    moment timestamptz;
    heard timestamptz;
BEGIN
    IF mine IS NULL AND NOT pg_has_role(session_user, 'runbook_client', 'MEMBER') THEN RETURN 0; END IF;
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = session_user) THEN -- nobody takes living workers' shards
        silence := greatest(silence, 10);
        most := greatest(most, 2);
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtext('runbook settle ' || coalesce(mine, ''))) THEN RETURN 0; END IF;
    UPDATE settling SET at = clock_timestamp(),
            since = CASE WHEN at < clock_timestamp() - interval '10 s' THEN clock_timestamp() ELSE since END
        RETURNING at, since INTO moment, heard;
    UPDATE shard SET state = 'done', epoch = epoch + 1
        WHERE state = 'waiting' AND start_before <= moment AND NOT goes_on(run, site)
            AND (mine IS NULL OR site = mine OR works_on(mine, run));
    GET DIAGNOSTICS settled = ROW_COUNT;
    FOR one IN
        UPDATE shard SET epoch = epoch + 1, state = CASE WHEN epoch + 1 < most THEN 'waiting' ELSE 'done' END,
                start_before = clock_timestamp() + make_interval(secs => again)
            WHERE state = 'working' -- while PostgreSQL itself was away, nobody could say that he lives
                AND greatest(heartbeat, pg_postmaster_start_time(), heard) < moment - make_interval(secs => silence)
                AND (mine IS NULL OR site = mine OR works_on(mine, run))
            RETURNING *
    LOOP
        settled := settled + 1;
        IF one.state = 'waiting' THEN PERFORM procrastinate_defer_jobs_v1(ARRAY[task_of(one)]); END IF;
    END LOOP;
    RETURN settled;
END $$;

-- Asks for the end of a run, in two transactions: from the first one on no permit is begun, whoever holds a row; after the
-- second one, which waits for those that are being given, none is given. A level never goes down.
CREATE FUNCTION ask_stop(of_run text, to_level int, because text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
    INSERT INTO stop (run, level, why) VALUES (of_run, greatest(to_level, 1), because)
        ON CONFLICT (run) DO UPDATE SET level = greatest(stop.level, to_level)
$$;

CREATE FUNCTION complete_stop(of_run text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = runbook, pg_temp SET lock_timeout = '3s' AS $$
BEGIN
    UPDATE shard SET state = 'done', epoch = epoch + 1 WHERE run = of_run AND state = 'waiting';
    PERFORM FROM run WHERE id = of_run FOR UPDATE;
EXCEPTION WHEN lock_not_available THEN
    NULL; -- somebody holds the row; what is in `stop` counts all the same
END $$;

CREATE FUNCTION end_run(of_run text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = runbook, pg_temp AS $$
    UPDATE run SET ended = coalesce(ended, clock_timestamp()) WHERE id = of_run
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA runbook FROM PUBLIC;
GRANT USAGE ON SCHEMA runbook TO runbook_client, runbook_site;

-- Clients begin runs and follow them.
GRANT SELECT ON ALL TABLES IN SCHEMA runbook TO runbook_client;
GRANT INSERT ON run, document, shard, rollout TO runbook_client;
GRANT UPDATE ON rollout TO runbook_client;
GRANT INSERT, SELECT, UPDATE ON procrastinate_jobs, procrastinate_events TO runbook_client;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA runbook TO runbook_client;
GRANT EXECUTE ON FUNCTION my_site(), changed_hosts(text, text, float), task_of(shard), settle(float, float, int), ask_stop(text, int, text),
    complete_stop(text), end_run(text) TO runbook_client;

-- Workers read what is of their site, and write through the functions above alone.
GRANT SELECT ON site, document, shard, permit, event, result TO runbook_site;
GRANT SELECT (id, playbook, by, at, ended, attempt) ON run TO runbook_site;
GRANT EXECUTE ON FUNCTION my_site(), changed_hosts(text, text, float), claim(text, int, int, text), beat(text, int, int, text), finish(text, int, int, text),
    permit(text, int, int, text, text, text, int, text, float), ship(text, int, int, jsonb), rollout_of(text, int, int),
    keep_rollout(text, int, int, json), hello(text, text, int), refuse(text, text, text), settle(float, float, int)
    TO runbook_site;
GRANT SELECT, INSERT, UPDATE, DELETE ON procrastinate_jobs, procrastinate_events, procrastinate_periodic_defers,
    procrastinate_workers TO runbook_site;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA runbook TO runbook_site;

-- Procrastinate's own functions run with the rights of whoever calls them.
DO $$
DECLARE
    one regprocedure;
BEGIN
    FOR one IN SELECT oid FROM pg_proc WHERE pronamespace = 'runbook'::regnamespace AND proname LIKE 'procrastinate%' LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO runbook_client, runbook_site', one);
    END LOOP;
END $$;

INSERT INTO settling DEFAULT VALUES;

ALTER TABLE site ENABLE ROW LEVEL SECURITY;
ALTER TABLE run ENABLE ROW LEVEL SECURITY;
ALTER TABLE stop ENABLE ROW LEVEL SECURITY;
ALTER TABLE document ENABLE ROW LEVEL SECURITY;
ALTER TABLE shard ENABLE ROW LEVEL SECURITY;
ALTER TABLE permit ENABLE ROW LEVEL SECURITY;
ALTER TABLE event ENABLE ROW LEVEL SECURITY;
ALTER TABLE result ENABLE ROW LEVEL SECURITY;
ALTER TABLE procrastinate_jobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE procrastinate_events ENABLE ROW LEVEL SECURITY;

CREATE POLICY client ON site TO runbook_client USING (true);
CREATE POLICY client ON run TO runbook_client USING (true);
CREATE POLICY client ON stop TO runbook_client USING (true);
CREATE POLICY client ON document TO runbook_client USING (true);
CREATE POLICY client ON shard TO runbook_client USING (true);
CREATE POLICY client ON permit TO runbook_client USING (true);
CREATE POLICY client ON event TO runbook_client USING (true);
CREATE POLICY client ON result TO runbook_client USING (true);
CREATE POLICY client ON procrastinate_jobs TO runbook_client USING (true);
CREATE POLICY client ON procrastinate_events TO runbook_client USING (true);

CREATE POLICY own ON site TO runbook_site USING (role = session_user);
CREATE POLICY own ON run FOR SELECT TO runbook_site USING (EXISTS (SELECT FROM shard WHERE shard.run = run.id));
CREATE POLICY own ON document FOR SELECT TO runbook_site USING (site = my_site());
CREATE POLICY own ON shard FOR SELECT TO runbook_site USING (site = my_site());
CREATE POLICY own ON permit FOR SELECT TO runbook_site USING (site = my_site());
CREATE POLICY own ON event FOR SELECT TO runbook_site USING (site = my_site());
CREATE POLICY own ON result FOR SELECT TO runbook_site USING (site = my_site());
CREATE POLICY own ON procrastinate_jobs TO runbook_site USING (queue_name = my_site());
CREATE POLICY own ON procrastinate_events TO runbook_site
    USING (EXISTS (SELECT FROM procrastinate_jobs WHERE procrastinate_jobs.id = job_id));
