//! Keys of JSON files that nothing reads. Upstream ignores them; users should know.

use serde::Serialize;
use serde_json::Value;

/// Keys that are listed.
const MAX_KEYS: usize = 20;

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
