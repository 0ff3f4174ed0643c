-- The floor: the fewest tables that keep a full history. What an engine does besides is its own cost.
CREATE TABLE job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, lane int, created_at timestamptz, payload text);
CREATE TABLE ready (lane int, run_at timestamptz, id bigint, PRIMARY KEY (lane, run_at, id));
CREATE TABLE claim (fence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, worker uuid, claimed_at timestamptz, ids bigint[]);
CREATE TABLE done (id bigint PRIMARY KEY, lane int, runs int, fence bigint, worker uuid, started_at timestamptz,
    finished_at timestamptz, result text);
CREATE INDEX done_finished ON done (finished_at);
