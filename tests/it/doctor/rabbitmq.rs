//! A broker that takes smaller messages than the relay lets through.

use super::*;

on_both_rabbits!(a_broker_that_takes_less_than_the_largest_event_is_found);

async fn a_broker_that_takes_less_than_the_largest_event_is_found(version: RabbitVersion) {
    let healthy = Healthy::new(version.postgres()).await;
    let rabbit = Rabbit::create(version, "size");
    rabbit.create_layout(QueueKind::Quorum);
    let settings = of_rabbit(&healthy.database, &rabbit);
    let (limit, more) = match version {
        RabbitVersion::Oldest => ("134217728", "129MiB"),
        RabbitVersion::Newest => ("16777216", "17MiB"),
    };
    let large = settings.clone().with("source.postgres.max_event_size", more);
    let fix = finds(&large, &["sink `tasks`", "at most", limit, "can never be delivered"]).await;
    assert_eq!(typed(&fix)[0], format!("max_event_size: {limit}"));
    is_silent(&settings.with("source.postgres.max_event_size", limit)).await;
    // Whoever has raised the broker's limit says so.
    is_silent(&large.with("sinks.tasks.rabbitmq.max_message_size", more)).await;
}
