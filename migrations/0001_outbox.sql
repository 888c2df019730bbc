-- An outbox table. Writers insert into it in the transaction that changes what the event is about;
-- nothing ever needs to update it, and rows may be deleted once they are old enough.
--
-- The columns are Debezium's roles under names of one style. `xid` is the transaction that wrote the
-- row: positions in commit order that a query can find without the WAL. No second index: an outbox
-- is written far more often than it is searched.
CREATE TABLE IF NOT EXISTS public.outbox (
    id             uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    aggregate_type text        NOT NULL,
    aggregate_id   text        NOT NULL,
    event_type     text        NOT NULL,
    payload        jsonb,
    created_at     timestamptz NOT NULL DEFAULT now(),
    xid            xid8        NOT NULL DEFAULT pg_current_xact_id()
);
