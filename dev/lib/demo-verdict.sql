-- What the consumers read, held against the outbox table. Read by psql in the demo's directory, which holds
--   orders.tsv       Kafka's console consumer's lines: partition, offset, headers, key, value
--   payments.tsv     RabbitMQ's consumer's lines, of the same columns
--   rolled-back.ids  one id a line
-- One row comes out, in the order of the columns below.

\set ON_ERROR_STOP on

CREATE TEMP TABLE line (n bigint GENERATED ALWAYS AS IDENTITY, line text, read_as text DEFAULT 'order');
CREATE TEMP TABLE rolled_back (id text);

-- No line has these control characters, so "CSV" here means a line as it is.
\copy line (line) FROM 'orders.tsv' (FORMAT csv, DELIMITER E'\x01', QUOTE E'\x02')
ALTER TABLE line ALTER read_as SET DEFAULT 'payment';
\copy line (line) FROM 'payments.tsv' (FORMAT csv, DELIMITER E'\x01', QUOTE E'\x02')
\copy rolled_back FROM 'rolled-back.ids'

-- The first occurrence of each id: what a consumer that drops copies works with.
CREATE TEMP TABLE consumed AS
SELECT DISTINCT ON (id) *
FROM (
    SELECT n,
           read_as,
           coalesce(substring(split_part(line, E'\t', 3) FROM '(?:^|,)id:([^,]*)'), line) AS id,
           substring(split_part(line, E'\t', 3) FROM '(?:^|,)eventType:([^,]*)') AS event_type,
           split_part(line, E'\t', 4) AS key,
           substring(line FROM '^(?:[^\t]*\t){4}(.*)$') AS value
    FROM line
) AS records
ORDER BY id, n;

WITH pairs AS (
    SELECT consumed.n, consumed.id AS consumed, outbox.id::text AS written, aggregate_type, aggregate_id,
           (outbox.payload::jsonb->>'sequence')::bigint AS sequence,
           read_as IS DISTINCT FROM aggregate_type AS misled,
           consumed.key IS DISTINCT FROM outbox.aggregate_id
               OR consumed.event_type IS DISTINCT FROM outbox.event_type
               OR consumed.value IS DISTINCT FROM outbox.payload::text AS altered
    FROM consumed FULL JOIN outbox ON consumed.id = outbox.id::text
), ordered AS (
    SELECT *,
           max(sequence) OVER (
               PARTITION BY aggregate_type, aggregate_id ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
           ) AS latest_before
    FROM pairs
    WHERE consumed IS NOT NULL
)
SELECT
    (SELECT count(*) FROM outbox) AS written,
    (SELECT count(*) FROM pairs WHERE consumed = written) AS delivered,
    (SELECT count(*) FROM pairs WHERE consumed IS NULL) AS missing,
    (SELECT count(*) FROM pairs WHERE written IS NULL) AS unexpected,
    (SELECT count(*) FROM ordered WHERE sequence < latest_before) AS reordered,
    (SELECT count(*) FROM pairs WHERE consumed = written AND altered) AS altered,
    (SELECT count(*) FROM pairs WHERE consumed = written AND misled) AS misled,
    (SELECT count(*) FROM line) - (SELECT count(*) FROM consumed) AS copies,
    -- What the slot would still send: `I` is pgoutput's Insert.
    (
        SELECT count(*)
        FROM pg_replication_slots AS slot, pg_publication,
             pg_logical_slot_peek_binary_changes(slot_name, NULL, NULL, 'proto_version', '1', 'publication_names', pubname)
        WHERE slot.database = current_database() AND get_byte(data, 0) = ascii('I')
    ) AS unconfirmed,
    (SELECT count(*) FROM rolled_back) AS rolled_back,
    (SELECT count(*) FROM rolled_back JOIN consumed USING (id)) AS rolled_back_consumed,
    (SELECT count(DISTINCT (aggregate_type, aggregate_id)) FROM outbox) AS aggregates,
    (SELECT count(*) FROM consumed WHERE read_as = 'order') AS orders,
    (SELECT count(*) FROM consumed WHERE read_as = 'payment') AS payments;
