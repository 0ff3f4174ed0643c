-- An array of payloads takes the place of the word in braces: one for a single job, a thousand for a batch.
WITH new AS (INSERT INTO job (lane, created_at, payload) SELECT 1, now(), p FROM unnest({payloads}::text[]) AS p RETURNING id)
INSERT INTO ready (lane, run_at, id) SELECT 1, now(), id FROM new;
