-- The shop of the demo: two tables of its business, and what happens in it. Each function changes those tables and
-- writes the events of the change into the outbox, so both are in the caller's transaction. It returns the events' ids.

CREATE TABLE orders (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text GENERATED ALWAYS AS ('ord-' || number::text) STORED,
    customer text NOT NULL,
    cents integer NOT NULL,
    status text NOT NULL DEFAULT 'placed',
    version integer NOT NULL DEFAULT 1
);
CREATE INDEX ON orders (status, number);

CREATE TABLE payments (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text GENERATED ALWAYS AS ('pay-' || number::text) STORED,
    order_id text NOT NULL,
    cents integer NOT NULL,
    status text NOT NULL DEFAULT 'received',
    version integer NOT NULL DEFAULT 1
);
CREATE INDEX ON payments (status, number);

-- `sequence` counts an aggregate's events from 1 in commit order: its row is locked until the transaction ends.
CREATE FUNCTION emit(aggregate_type text, aggregate_id text, event_type text, sequence integer, details jsonb)
RETURNS text
LANGUAGE sql AS $$
    INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
    VALUES ($1, $2, $3, jsonb_build_object('sequence', $4) || $5)
    RETURNING id::text
$$;

CREATE FUNCTION place_order() RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    o orders;
BEGIN
    INSERT INTO orders (customer, cents)
    VALUES (
        (ARRAY['Ada', 'Błażej', 'Chloé', 'Dmitri', 'Emeka', 'Fatou', '美咲'])[1 + floor(random() * 7)::integer],
        500 + floor(random() * 20000)
    )
    RETURNING * INTO o;
    RETURN NEXT emit('order', o.id, 'OrderPlaced', o.version, jsonb_build_object('customer', o.customer, 'cents', o.cents));
END $$;

-- One of the newest orders, so that several sessions often want the same one.
CREATE FUNCTION amend_order() RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    o orders;
    candidate bigint;
BEGIN
    SELECT number INTO candidate
    FROM orders WHERE status = 'placed' ORDER BY number DESC OFFSET floor(random() * 10) LIMIT 1;
    UPDATE orders
    SET cents = cents + 100, version = version + 1
    WHERE number = candidate AND status = 'placed'
    RETURNING * INTO o;
    IF FOUND THEN
        RETURN NEXT emit('order', o.id, 'OrderAmended', o.version, jsonb_build_object('cents', o.cents));
    END IF;
END $$;

-- Two tables, two aggregates, one transaction.
CREATE FUNCTION pay_order() RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    o orders;
    p payments;
BEGIN
    UPDATE orders
    SET status = 'paid', version = version + 1
    WHERE number = (SELECT number FROM orders WHERE status = 'placed' ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING * INTO o;
    IF FOUND THEN
        INSERT INTO payments (order_id, cents) VALUES (o.id, o.cents) RETURNING * INTO p;
        RETURN NEXT emit('payment', p.id, 'PaymentReceived', p.version, jsonb_build_object('order', o.id, 'cents', p.cents));
        RETURN NEXT emit('order', o.id, 'OrderPaid', o.version, jsonb_build_object('payment', p.id));
    END IF;
END $$;

CREATE FUNCTION settle_payment() RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    p payments;
BEGIN
    UPDATE payments
    SET status = 'settled', version = version + 1
    WHERE number = (SELECT number FROM payments WHERE status = 'received' ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING * INTO p;
    IF FOUND THEN
        RETURN NEXT emit('payment', p.id, 'PaymentSettled', p.version, jsonb_build_object('cents', p.cents));
    END IF;
END $$;
