//! What the JSON files of this ecosystem have in common: numbers as text, errors with a place, and
//! keys that nothing reads, which upstream ignores and users should know of.

use quincunx_diag::{Diagnostic, did_you_mean};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::error::Category;

/// Keys that are listed.
const MAX_KEYS: usize = 20;

/// Keys that a file may leave out, for hints about misspelt ones.
const OPTIONAL_KEYS: [&str; 8] = [
    "number_of_threads",
    "thread_queue_depth",
    "instruction_bytes",
    "sample_block_size",
    "lookup_tables",
    "lookup_table_depth",
    "clock_mhz",
    "board",
];

/// The keys of a text that are not in what was read from it, as `arch.key` or `inputs.0.key`. A key
/// with the value null is as good as absent.
pub(crate) fn unknown_keys(text: &str, read: &impl Serialize) -> Vec<String> {
    // Both have a form: the text was read before, and what was read is plain data.
    let (given, known) = (serde_json::from_str(text), serde_json::to_value(read));
    let mut keys = Vec::new();
    if let (Ok(given), Ok(known)) = (given, known) {
        collect(&given, &known, "", &mut keys);
    }
    keys
}

fn collect(given: &Value, known: &Value, path: &str, keys: &mut Vec<String>) {
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => {
            for (key, value) in given.iter().filter(|(_, value)| !value.is_null()) {
                match known.get(key) {
                    Some(known) => collect(value, known, &join(key), keys),
                    None if keys.len() < MAX_KEYS => keys.push(join(key)),
                    None => return,
                }
            }
        }
        (Value::Array(given), Value::Array(known)) => {
            for (index, (given, known)) in given.iter().zip(known).enumerate() {
                collect(given, known, &join(&index.to_string()), keys);
            }
        }
        _ => {}
    }
}

/// The warning about a key of a file, given with the keys that lead to it.
pub(crate) fn unknown_key(path: &str) -> Diagnostic {
    let key = path.rsplit('.').next().unwrap_or(path);
    let message = format!("the key \"{}\" means nothing here and is ignored", path.escape_debug());
    Diagnostic::warning("Q3004", message).help_if(did_you_mean(key, OPTIONAL_KEYS))
}

/// The error for malformed JSON, at its byte.
pub(crate) fn json_error(code: &'static str, text: &str, error: &serde_json::Error) -> Diagnostic {
    let message = error.to_string();
    // The place is said apart from the message.
    let message = message.split(" at line ").next().unwrap_or(&message);
    let message = match error.classify() {
        Category::Eof => "the JSON text ends too early".to_owned(),
        Category::Syntax => format!("this is not JSON: {message}"),
        Category::Data | Category::Io => message.to_owned(),
    };
    let before = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let column = error.column().saturating_sub(1);
    let offset = before.map(str::len).fold(column, usize::saturating_add);
    Diagnostic::invalid(code, message).at_byte(offset as u64).with_note(format!(
        "line {}, column {}",
        error.line(),
        error.column()
    ))
}

/// A number, or the text of one: upstream's JSON library writes large numbers as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(u64),
    Text(String),
}

/// Reads an unsigned number.
pub(crate) fn number<'de, T: TryFrom<u64>, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<T, D::Error> {
    use serde::de::Error as _;
    let wrong = |_| D::Error::custom("expected a whole number that is not negative");
    let value = match NumberOrText::deserialize(deserializer).map_err(wrong)? {
        NumberOrText::Number(value) => value,
        NumberOrText::Text(text) => text.parse().map_err(|_| {
            let shown: String = text.chars().take(40).collect();
            D::Error::custom(format!("expected a whole number, found {shown:?}"))
        })?,
    };
    T::try_from(value).map_err(|_| D::Error::custom(format!("{value} is too big")))
}
