//! The SQL function through which any client that speaks SQL submits a job, in whatever transaction it is (L14).
//!
//! It writes the rows that `flush` writes for a submit, in the same order of tables, and checks what
//! `backstop_core::admit` checks with the default limits. Whoever calls it needs the rights of a submitter: it runs
//! with the rights of its caller. A queue's allow list and whether it asks for signatures are what the programs that
//! serve it have left in the store (`backstop_store::Gate`).

/// What is done without a lane: the job is kept until its transaction ends.
macro_rules! keep_for_later {
    () => {
        r#"    IF of_lane IS NULL THEN
        INSERT INTO backstop.tag (tag, id) SELECT DISTINCT t, new_id FROM unnest(all_tags) t;
        -- A lane that is made here would be waited for by all who need it, until this transaction ends.
        INSERT INTO backstop.laneless (id, queue, kind, version, priority, created_at, run_at, payload, policy,
            expires_at, idempotency_key, business_key, correlation_id, tags, params)
            VALUES (new_id, enqueue.queue, enqueue.kind, enqueue.version, enqueue.priority, clock_us, due_us,
            enqueue.payload::text, nullif(new_policy, '{}')::text, expires_us, enqueue.idempotency_key,
            enqueue.business_key, enqueue.correlation_id, nullif(to_jsonb(all_tags), '[]')::text,
            enqueue.params::text);
        RETURN new_id;
    END IF;
"#
    };
}

/// Everything but what it does about the lane: how it is made, how a lane is found, and what is done without one.
///
/// Errors of this class are ours: ZB001 for input that is refused, ZB002 for a business key that a live job holds.
macro_rules! enqueue {
    ($create:expr, $find_lane:expr, $without_lane:expr) => {
        concat!(
            $create,
            r#" backstop.enqueue(
    kind text,
    payload jsonb DEFAULT '{}',
    queue text DEFAULT 'default',
    priority integer DEFAULT 2,
    run_at timestamptz DEFAULT NULL,
    idempotency_key text DEFAULT NULL,
    business_key text DEFAULT NULL,
    tags text[] DEFAULT '{}',
    version integer DEFAULT 1,
    params jsonb DEFAULT NULL,
    correlation_id text DEFAULT NULL,
    max_retries integer DEFAULT NULL,
    timeout interval DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL)
RETURNS uuid LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $enqueue$
DECLARE
    clock_us CONSTANT bigint := (extract(epoch FROM statement_timestamp()) * 1000000)::bigint;
    due_us CONSTANT bigint := CASE WHEN isfinite(enqueue.run_at)
        THEN (extract(epoch FROM enqueue.run_at) * 1000000)::bigint ELSE clock_us END;
    expires_us CONSTANT bigint := CASE WHEN isfinite(enqueue.expires_at)
        THEN (extract(epoch FROM enqueue.expires_at) * 1000000)::bigint END;
    all_tags CONSTANT text[] := coalesce(enqueue.tags, '{}');
    -- The moment in milliseconds, then chance, then the bits that say version 7.
    new_id CONSTANT uuid := encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send(clock_us / 1000) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid;
    new_policy jsonb := '{}';
    field text;
    content text;
    most integer;
    of_lane integer;
    known uuid;
BEGIN
    FOR field, content, most IN SELECT * FROM (VALUES ('kind', enqueue.kind, 128),
        ('queue', enqueue.queue, 128), ('idempotency_key', enqueue.idempotency_key, 255),
        ('business_key', enqueue.business_key, 255), ('correlation_id', enqueue.correlation_id, 255)) c
        UNION ALL SELECT 'tags', t, 128 FROM unnest(all_tags) t
    LOOP
        IF content IS NULL AND field NOT IN ('kind', 'queue', 'tags') THEN
            CONTINUE;
        END IF;
        IF coalesce(content, '') = '' THEN
            RAISE EXCEPTION '% is invalid: it is empty', field USING ERRCODE = 'ZB001';
        ELSIF length(content) > most THEN
            RAISE EXCEPTION '% has % characters, the limit is %', field, length(content), most
                USING ERRCODE = 'ZB001';
        ELSIF content ~ '[\u0001-\u001f\u007f-\u009f]' THEN
            RAISE EXCEPTION '% is invalid: it holds a control character', field USING ERRCODE = 'ZB001';
        ELSIF field IN ('kind', 'queue') AND content ~ '^\s|\s$' THEN
            RAISE EXCEPTION '% is invalid: it begins or ends with white space', field USING ERRCODE = 'ZB001';
        END IF;
    END LOOP;
    IF enqueue.payload IS NULL OR octet_length(enqueue.payload::text) > 1048576 THEN
        RAISE EXCEPTION 'payload is invalid: it is missing or has more than 1048576 bytes' USING ERRCODE = 'ZB001';
    ELSIF enqueue.params IS NOT NULL AND (jsonb_typeof(enqueue.params) <> 'object'
        OR octet_length(enqueue.params::text) > 16384) THEN
        RAISE EXCEPTION 'params is invalid: it is no JSON object or has more than 16384 bytes'
            USING ERRCODE = 'ZB001';
    ELSIF cardinality(all_tags) > 32 THEN
        RAISE EXCEPTION 'tags has % tags, the limit is 32', cardinality(all_tags) USING ERRCODE = 'ZB001';
    ELSIF enqueue.priority IS NULL OR enqueue.priority NOT BETWEEN 0 AND 4 THEN
        RAISE EXCEPTION 'priority is invalid: it goes from 0 (lowest) to 4 (critical)' USING ERRCODE = 'ZB001';
    ELSIF enqueue.version IS NULL OR enqueue.version < 0 THEN
        RAISE EXCEPTION 'version is invalid: it is missing or negative' USING ERRCODE = 'ZB001';
    ELSIF NOT isfinite(coalesce(enqueue.run_at, now())) OR NOT isfinite(coalesce(enqueue.expires_at, now())) THEN
        RAISE EXCEPTION 'run_at or expires_at is invalid: it is infinite' USING ERRCODE = 'ZB001';
    ELSIF enqueue.max_retries NOT BETWEEN 0 AND 1000000 THEN
        RAISE EXCEPTION 'max_retries is invalid: it goes from 0 to 1000000' USING ERRCODE = 'ZB001';
    ELSIF enqueue.timeout < interval '1 millisecond' OR enqueue.timeout > interval '3660 days' THEN
        RAISE EXCEPTION 'timeout is invalid: it goes from one millisecond to 3660 days' USING ERRCODE = 'ZB001';
    END IF;
    IF enqueue.max_retries IS NOT NULL THEN
        new_policy := new_policy || jsonb_build_object('max_retries', enqueue.max_retries);
    END IF;
    IF enqueue.timeout IS NOT NULL THEN
        new_policy := new_policy
            || jsonb_build_object('timeout_ms', (extract(epoch FROM enqueue.timeout) * 1000)::bigint);
    END IF;
"#,
            $find_lane,
            r#"    IF enqueue.idempotency_key IS NOT NULL THEN
        -- Waits for whoever is about to store the same key.
        INSERT INTO backstop.idempotency (key, job) VALUES (enqueue.idempotency_key, new_id)
            ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            SELECT i.job INTO STRICT known FROM backstop.idempotency i WHERE i.key = enqueue.idempotency_key;
            RETURN known;
        END IF;
    END IF;
    LOOP
        EXIT WHEN enqueue.business_key IS NULL;
        INSERT INTO backstop.business (key, job) VALUES (enqueue.business_key, new_id) ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
        SELECT b.job INTO known FROM backstop.business b WHERE b.key = enqueue.business_key;
        IF FOUND THEN
            RAISE EXCEPTION 'business key % is held by job %', enqueue.business_key, known
                USING ERRCODE = 'ZB002', HINT = 'wait until that job has ended, or cancel it';
        END IF;
        -- Its holder has just ended: the key is free.
    END LOOP;
"#,
            $without_lane,
            "    INSERT INTO backstop.job (id, lane, created_at, run_at, payload, policy, expires_at, ",
            r#"idempotency_key, business_key,
        correlation_id, tags, params)
        VALUES (new_id, of_lane, clock_us, due_us, enqueue.payload::text, nullif(new_policy, '{}')::text, expires_us,
        enqueue.idempotency_key, enqueue.business_key, enqueue.correlation_id,
        nullif(to_jsonb(all_tags), '[]')::text, enqueue.params::text);
    INSERT INTO backstop.tag (tag, id) SELECT DISTINCT t, new_id FROM unnest(all_tags) t;
    INSERT INTO backstop.ready (lane, run_at, id, expires_at, rowed)
        VALUES (of_lane, due_us, new_id, expires_us, FALSE);
    INSERT INTO backstop.tally (lane, pending, running, succeeded, failed, paused, canceled, waiting)
        VALUES (of_lane, 1, 0, 0, 0, 0, 0, 0);
    RETURN new_id;
END
$enqueue$"#
        )
    };
}

/// As the first version had it: a new lane is made in the transaction of the caller, and others wait for that.
pub(crate) const ENQUEUE: &str = enqueue!(
    "CREATE FUNCTION",
    r#"    INSERT INTO backstop.lane (queue, kind, version, priority)
        VALUES (enqueue.queue, enqueue.kind, enqueue.version, enqueue.priority) ON CONFLICT DO NOTHING;
    SELECT l.id INTO STRICT of_lane FROM backstop.lane l WHERE l.queue = enqueue.queue AND l.kind = enqueue.kind
        AND l.version = enqueue.version AND l.priority = enqueue.priority;
"#,
    ""
);

/// Jobs that were submitted by the function where no lane was. Their rows are never committed: at the end of its
/// transaction each becomes a job. So a lane is made when its transaction ends, and nobody waits for it before that.
pub(crate) const LANELESS: &str = "CREATE TABLE backstop.laneless (
        id uuid PRIMARY KEY,
        queue text COLLATE \"C\" NOT NULL,
        kind text COLLATE \"C\" NOT NULL,
        version bigint NOT NULL,
        priority bigint NOT NULL,
        created_at bigint NOT NULL,
        run_at bigint NOT NULL,
        payload text NOT NULL,
        policy text,
        expires_at bigint,
        idempotency_key text COLLATE \"C\",
        business_key text COLLATE \"C\",
        correlation_id text,
        tags text,
        params text)";

/// Whoever may store what waits may store this too: roles that were made before need not be made again.
pub(crate) const LANELESS_RIGHTS: &str = "DO $grants$ DECLARE allowed record; BEGIN
    FOR allowed IN SELECT a.grantee::regrole AS whom FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
        WHERE c.oid = 'backstop.ready'::regclass AND a.grantee NOT IN (0, c.relowner) AND a.privilege_type = 'INSERT'
    LOOP EXECUTE format('GRANT SELECT, INSERT, DELETE ON backstop.laneless TO %s', allowed.whom); END LOOP;
END $grants$";

/// Runs as the transaction of the caller ends.
pub(crate) const SORT_IN: &str = r#"CREATE OR REPLACE FUNCTION backstop.sort_in() RETURNS trigger LANGUAGE plpgsql
SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $sort$
DECLARE
    of_lane integer;
BEGIN
    DELETE FROM backstop.laneless u WHERE u.id = NEW.id;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO backstop.lane (queue, kind, version, priority)
        VALUES (NEW.queue, NEW.kind, NEW.version, NEW.priority) ON CONFLICT DO NOTHING;
    SELECT l.id INTO STRICT of_lane FROM backstop.lane l WHERE l.queue = NEW.queue AND l.kind = NEW.kind
        AND l.version = NEW.version AND l.priority = NEW.priority;
    INSERT INTO backstop.job (id, lane, created_at, run_at, payload, policy, expires_at, idempotency_key, business_key,
        correlation_id, tags, params)
        VALUES (NEW.id, of_lane, NEW.created_at, NEW.run_at, NEW.payload, NEW.policy, NEW.expires_at,
        NEW.idempotency_key, NEW.business_key, NEW.correlation_id, NEW.tags, NEW.params);
    INSERT INTO backstop.ready (lane, run_at, id, expires_at, rowed)
        VALUES (of_lane, NEW.run_at, NEW.id, NEW.expires_at, FALSE);
    INSERT INTO backstop.tally (lane, pending, running, succeeded, failed, paused, canceled, waiting)
        VALUES (of_lane, 1, 0, 0, 0, 0, 0, 0);
    RETURN NULL;
END
$sort$"#;
pub(crate) const SORT_IN_LAST: &str = "CREATE CONSTRAINT TRIGGER laneless_sort_in AFTER INSERT ON backstop.laneless \
     DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION backstop.sort_in()";

/// The same function with lanes that nobody waits for.
pub(crate) const ENQUEUE_UNHINDERED: &str = enqueue!(
    "CREATE OR REPLACE FUNCTION",
    r#"    SELECT l.id INTO of_lane FROM backstop.lane l WHERE l.queue = enqueue.queue AND l.kind = enqueue.kind
        AND l.version = enqueue.version AND l.priority = enqueue.priority;
"#,
    keep_for_later!()
);

/// What queues let in, for those who may not read the other documents of the engine.
pub(crate) const GATE: &str = "CREATE OR REPLACE VIEW backstop.gate AS SELECT d.key AS name, d.body::jsonb AS said \
     FROM backstop.document d WHERE d.drawer = 'gate'";

/// Whoever may submit may ask: roles that were made before need not be made again.
pub(crate) const GATE_RIGHTS: &str = "DO $grants$ DECLARE allowed record; BEGIN
    FOR allowed IN SELECT a.grantee::regrole AS whom FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
        WHERE c.oid = 'backstop.ready'::regclass AND a.grantee NOT IN (0, c.relowner) AND a.privilege_type = 'INSERT'
    LOOP EXECUTE format('GRANT SELECT ON backstop.gate TO %s', allowed.whom); END LOOP;
END $grants$";

/// The checks of every other submit, in their order (L12), and where the job belongs.
macro_rules! guards {
    () => {
        r#"    IF enqueue.kind LIKE 'backstop.%' OR enqueue.queue LIKE 'backstop.%' THEN
        RAISE EXCEPTION 'kind or queue is invalid: names that begin with `backstop.` are the engine''s own'
            USING ERRCODE = 'ZB001', HINT = 'choose another name';
    ELSIF coalesce(
        (SELECT (g.said->>'signed')::boolean FROM backstop.gate g WHERE g.name = 'queue/' || enqueue.queue),
        (SELECT (g.said->>'signed')::boolean FROM backstop.gate g WHERE g.name = 'all'), FALSE) THEN
        RAISE EXCEPTION 'the signature is refused: queue % takes signed jobs only, and this function has no keys',
            enqueue.queue USING ERRCODE = 'ZB001', HINT = 'submit it through a program that has the signing keys';
    ELSIF EXISTS (SELECT FROM backstop.gate g WHERE g.name = 'queue/' || enqueue.queue
        AND NOT (g.said->'kinds') @> to_jsonb(enqueue.kind)) THEN
        RAISE EXCEPTION 'kind % is not allowed on queue %', enqueue.kind, enqueue.queue
            USING ERRCODE = 'ZB001', HINT = 'use another queue, or add the kind to the queue''s `kinds`';
    END IF;
    SELECT l.id INTO of_lane FROM backstop.lane l WHERE l.queue = enqueue.queue AND l.kind = enqueue.kind
        AND l.version = enqueue.version AND l.priority = enqueue.priority;
"#
    };
}

/// The same with the checks of every other submit, in their order (L12). No key is kept in the database, so a job that
/// needs a signature cannot come this way.
pub(crate) const ENQUEUE_GUARDED: &str = enqueue!("CREATE OR REPLACE FUNCTION", guards!(), keep_for_later!());

/// The same with a limit of what may wait in its queue (H12), after everything that answers a repeated submit. What
/// other open transactions store is counted when they have been committed.
pub(crate) const ENQUEUE_BOUNDED: &str = enqueue!(
    "CREATE OR REPLACE FUNCTION",
    guards!(),
    concat!(
        r#"    SELECT least((g.said->>'max_depth')::numeric, 2147483647)::integer INTO most FROM backstop.gate g
        WHERE g.name = 'queue/' || enqueue.queue;
    IF most <= (SELECT coalesce(sum(l.pending + l.waiting), 0) FROM backstop.lane l WHERE l.queue = enqueue.queue)
        + (SELECT coalesce(sum(t.pending + t.waiting), 0) FROM backstop.tally t JOIN backstop.lane l ON l.id = t.lane
            WHERE l.queue = enqueue.queue) THEN
        RAISE EXCEPTION 'queue % is full (the limit is %)', enqueue.queue, most
            USING ERRCODE = 'ZB001', HINT = 'submit again later: nothing was stored';
    END IF;
"#,
        keep_for_later!()
    )
);

#[cfg(test)]
mod tests {
    use backstop_core::Limits;

    use super::*;

    #[test]
    fn the_limits_are_those_of_every_other_submit() {
        // L20
        let limits = Limits::default();
        for (limit, line) in [
            (limits.name_chars, "('kind', enqueue.kind, LIMIT)"),
            (limits.name_chars, "('queue', enqueue.queue, LIMIT)"),
            (limits.key_chars, "('idempotency_key', enqueue.idempotency_key, LIMIT)"),
            (limits.key_chars, "('business_key', enqueue.business_key, LIMIT)"),
            (limits.key_chars, "('correlation_id', enqueue.correlation_id, LIMIT)"),
            (limits.tag_chars, "SELECT 'tags', t, LIMIT FROM"),
            (limits.tags, "cardinality(all_tags) > LIMIT"),
            (limits.payload_bytes, "octet_length(enqueue.payload::text) > LIMIT"),
            (limits.params_bytes, "octet_length(enqueue.params::text) > LIMIT"),
            (limits.retries as usize, "max_retries NOT BETWEEN 0 AND LIMIT"),
        ] {
            let line = line.replace("LIMIT", &limit.to_string());
            assert!(ENQUEUE.contains(&line), "`{line}` is not in the function");
            assert!(ENQUEUE_GUARDED.contains(&line), "`{line}` is not in the function of today");
        }
        assert_eq!(limits.delay.as_secs(), 3_660 * 86_400, "the longest timeout");
    }
}
