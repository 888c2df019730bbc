//! The servers, and the rows that stand in slots.

use crate::support::{Cluster, Database, KafkaOptions, PrivateKafka, PrivatePostgres, Server, Sql};

/// Rows a transaction.
pub(crate) const SIZES: [u32; 3] = [1, 10, 1000];

/// Everything that figures are measured on.
pub(crate) struct Bench {
    pub(crate) postgres: PrivatePostgres,
    pub(crate) kafka: PrivateKafka,
    pub(crate) database: Database,
    pub(crate) server: Server,
    pub(crate) version: String,
    pub(crate) rows: u64,
    pub(crate) runs: usize,
    /// librdkafka's properties to try.
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) workloads: Vec<Workload>,
}

/// Rows in transactions of one size, and where they stand in the WAL.
pub(crate) struct Workload {
    pub(crate) size: u32,
    pub(crate) table: String,
    pub(crate) publication: String,
    /// A slot whose position is before the first row.
    pub(crate) slot: String,
    /// After the last row.
    pub(crate) end: String,
}

impl Bench {
    pub(crate) async fn start() -> Self {
        let server = match std::env::var("BENCH_SERVER").as_deref() {
            Ok("oldest") => Server::Oldest,
            _ => Server::Newest,
        };
        let settings = [
            ("shared_buffers", "1GB"),
            ("max_wal_size", "20GB"),
            ("synchronous_commit", "off"),
            ("autovacuum", "off"),
        ];
        let postgres = PrivatePostgres::start(server, &settings).await;
        let kafka = PrivateKafka::start(&KafkaOptions::default()).await;
        let database = Database::create_on(&postgres.cluster(), "bench").await;
        let version = database.sql().value("SELECT version()").await.unwrap();
        let (rows, runs) = (number("BENCH_ROWS", 1_000_000), number("BENCH_RUNS", 3));
        let version = version.split(" on ").next().unwrap_or_default().to_owned();
        let runs = usize::try_from(runs).unwrap();
        let properties = std::env::var("BENCH_PROPERTIES").unwrap_or_default();
        let properties = properties.split(',').filter_map(|pair| pair.split_once('='));
        let properties = properties.map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let workloads = Vec::new();
        let mut bench =
            Self { postgres, kafka, database, server, version, rows, runs, properties, workloads };
        for size in SIZES {
            let workload = bench.write(size).await;
            bench.workloads.push(workload);
        }
        bench
    }

    async fn write(&self, size: u32) -> Workload {
        let sql = self.database.sql();
        let (table, slot) = (format!("outbox_{size}"), format!("base_{size}"));
        sql.run(&create_table(&table)).await;
        create_slot(sql, &table, &slot).await;
        sql.run(&insert(&table, self.rows, size)).await;
        let end = sql.value("SELECT pg_current_wal_insert_lsn()").await.unwrap();
        Workload { size, publication: table.clone(), table, slot, end }
    }
}

/// Debezium's column roles under our names; a payload of about 400 bytes.
pub(crate) fn create_table(table: &str) -> String {
    format!(
        "CREATE TABLE {table} (id uuid PRIMARY KEY, aggregate_type text NOT NULL,
           aggregate_id text NOT NULL, event_type text NOT NULL, payload jsonb,
           created_at timestamptz NOT NULL DEFAULT now())"
    )
}

/// A publication of `table` under its name, and then a slot: one statement each, since a slot cannot be
/// made in a transaction that has written.
pub(crate) async fn create_slot(sql: &Sql, table: &str, slot: &str) {
    sql.run(&format!("CREATE PUBLICATION {table} FOR TABLE {table} WITH (publish = 'insert')"))
        .await;
    sql.run(&format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")).await;
}

fn insert(table: &str, rows: u64, size: u32) -> String {
    format!(
        "DO $$ BEGIN
           FOR i IN 0..{} LOOP
             INSERT INTO {table} (id, aggregate_type, aggregate_id, event_type, payload)
             SELECT gen_random_uuid(), 'bench', (n % 10000)::text, 'Happened', {PAYLOAD}
             FROM generate_series(i * {size} + 1, (i + 1) * {size}) AS n;
             COMMIT;
           END LOOP;
         END $$",
        rows / u64::from(size) - 1
    )
}

/// About 400 bytes as text, made of `n`.
pub(crate) const PAYLOAD: &str =
    "jsonb_build_object('n', n, 'text', repeat(md5(n::text), 11), 'price', n * 1.25)";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
