-- Fresh tables for one run. Autovacuum is off, so that two runs differ by nothing but chance.
DROP SCHEMA IF EXISTS layouts CASCADE;
CREATE SCHEMA layouts;
SET search_path = layouts;
CREATE TABLE job (id uuid PRIMARY KEY, lane int, created_at timestamptz, payload text);
CREATE TABLE ready (lane int, run_at timestamptz, id uuid, runs int, PRIMARY KEY (lane, run_at, id)) WITH (autovacuum_enabled = off);
CREATE TABLE held (id uuid PRIMARY KEY, lane int, run_at timestamptz, runs int, fence bigint, worker uuid, started_at timestamptz)
    WITH (autovacuum_enabled = off);
CREATE TABLE claim (fence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, worker uuid, claimed_at timestamptz, ids uuid[])
    WITH (autovacuum_enabled = off);
CREATE TABLE done (id uuid PRIMARY KEY, lane int, run_at timestamptz, runs int, fence bigint, worker uuid, started_at timestamptz,
    finished_at timestamptz, result text) WITH (autovacuum_enabled = off);
CREATE INDEX done_ended ON done (finished_at);
CREATE TABLE state (id uuid PRIMARY KEY, lane int, status smallint, run_at timestamptz, runs int, fence bigint, worker uuid,
    started_at timestamptz, finished_at timestamptz) WITH (autovacuum_enabled = off, fillfactor = 50);
CREATE INDEX state_pending ON state (lane, run_at, id) WHERE status = 1;
CREATE INDEX state_shelf ON state (status, id) WHERE status BETWEEN 2 AND 6;
CREATE INDEX state_ended ON state (finished_at) WHERE status >= 5;
CREATE TABLE attempt (job uuid, number int, fence bigint, worker uuid, cause text, due_at timestamptz, started_at timestamptz,
    finished_at timestamptz, result text, PRIMARY KEY (job, number)) WITH (autovacuum_enabled = off);
CREATE TABLE tally (lane int, pending int, running int, succeeded int);
CREATE SEQUENCE fence;
CREATE FUNCTION v7() RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
        || substr(md5(random()::text), 1, 19))::uuid $$;
