//! Failures that people have met with this kind of software: one file a case, and each test's name
//! begins with the case's.

mod a01;
mod a03;
mod a04;
mod a06;
mod a07;
mod a08;
mod a10;
mod a11;
mod a12;
mod a13;
mod a14;
mod a17;
mod a18;
mod a19;
mod a20;
mod a23;
mod a29;
mod a34;
mod rabbitmq;
