#![doc = include_str!("../../../docs/tcu-builders.md")]
