//! The RabbitMQ sink's face against real brokers, with a relay of a few lines behind it.

mod confirms;
mod exchanges;
mod faults;
mod limits;
mod login;
mod relay;
