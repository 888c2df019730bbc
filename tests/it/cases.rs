//! Failures that people have met with this kind of software: one file a case, and each test's name
//! begins with the case's.

mod a01;
mod a03;
mod a04;
mod a06;
mod a07;
mod a10;
mod a14;
mod a17;
mod a18;
mod a23;
mod a29;
