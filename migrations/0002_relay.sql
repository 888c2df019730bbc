-- Remembers that a slot has existed, so that a slot that is gone is told from a first start. Not a
-- position: that is the slot's alone. `created_at` is NULL where somebody else had made the slot.
CREATE SCHEMA IF NOT EXISTS pgoutbox;
CREATE TABLE IF NOT EXISTS pgoutbox.relay (
    slot              text        PRIMARY KEY,
    system_identifier text        NOT NULL,
    timeline          bigint      NOT NULL,
    created_lsn       pg_lsn      NOT NULL,
    created_at        timestamptz,
    updated_at        timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE pgoutbox.relay IS
    'pgoutbox: one row a slot that was created or adopted; delete it only to begin afresh';
