//! Tests of the whole reader and writer. They build files from messages, which only this crate can.

mod build;
mod hostile;
mod inputs;
mod numeric;
mod operators;
mod oracle;
mod oracle_numeric;
mod quantisers;
mod round_trip;
mod tensors;
