-- Only inserts, so that the application may update and delete rows without a replica identity; and
-- under the root's name, so that a partition never needs to be known.
CREATE PUBLICATION pgoutbox FOR TABLE public.outbox
    WITH (publish = 'insert', publish_via_partition_root = true);
