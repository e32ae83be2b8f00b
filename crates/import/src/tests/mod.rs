//! Tests of the whole reader and writer. They build files from messages, which only this crate can.

mod build;
mod classic;
mod control;
mod cut;
mod hostile;
mod inputs;
mod numeric;
mod operators;
mod oracle;
mod oracle_export;
mod oracle_numeric;
mod oracle_quantised;
mod quantisers;
mod round_trip;
mod survey;
mod tensors;
