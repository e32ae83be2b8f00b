//! Rows of decimals.

use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::{DType, Element, Tensor};

/// Most numbers of a file: 256 MiB as f64.
const MAX_NUMBERS: usize = 1 << 25;

/// Most numbers of a line, which is read as a whole.
const MAX_COLUMNS: usize = 1 << 22;

/// Most characters of a field in a message.
const SHOWN: usize = 40;

/// Every decimal becomes the nearest number of the type, without rounding twice; a whole number for
/// an input of whole numbers stays itself.
pub(super) fn read(bytes: &[u8], dtype: DType) -> Result<Tensor> {
    match dtype {
        DType::F32 => rows(bytes, |field| field.parse().ok().filter(|n: &f32| n.is_finite())),
        DType::F64 => rows(bytes, real),
        _ => rows(bytes, |field| real(field).filter(|&number| is_exact(field, number))),
    }
}

fn real(field: &str) -> Option<f64> {
    field.parse().ok().filter(|number: &f64| number.is_finite())
}

/// False for a whole number that f64 does not have.
fn is_exact(field: &str, number: f64) -> bool {
    field.parse::<i128>().map_or(true, |whole| number as i128 == whole)
}

fn rows<T: Element>(bytes: &[u8], number: impl Fn(&str) -> Option<T>) -> Result<Tensor> {
    let commas = |line: &[u8]| line.iter().filter(|&&byte| byte == b',').count();
    if let Some(line) = bytes.split(|&b| b == b'\n').position(|line| commas(line) >= MAX_COLUMNS) {
        let line = line + 1;
        let message =
            format!("line {line} has more than {MAX_COLUMNS} numbers, the most that is read");
        return Err(wrong(message).help("give them in a .npy file"));
    }
    let mut reader =
        ::csv::ReaderBuilder::new().has_headers(false).trim(::csv::Trim::All).from_reader(bytes);
    let mut numbers: Vec<T> = Vec::new();
    let mut record = ::csv::StringRecord::new();
    let (mut rows, mut columns) = (0, 0);
    while reader.read_record(&mut record).map_err(|e| malformed(bytes, &e))? {
        let line = line_of(bytes, record.position());
        if numbers.len() + record.len() > MAX_NUMBERS {
            let message = format!(
                "line {line}: the file has more than {MAX_NUMBERS} numbers, the most that is read"
            );
            return Err(wrong(message).help("give them in a .npy file"));
        }
        for (column, field) in record.iter().enumerate() {
            numbers.push(number(field).ok_or_else(|| {
                let place = format!("line {line}, column {}", column + 1);
                wrong(format!("{place}: {} is not a number that the input can hold", shown(field)))
            })?);
        }
        rows += 1;
        columns = record.len();
    }
    Tensor::from_vec(&[rows, columns], numbers)
}

/// The start of a field, in quotes.
fn shown(field: &str) -> String {
    match field.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &field[..end]),
        None => format!("{field:?}"),
    }
}

/// The line of a record, whose position is before empty lines and the rest of a line break.
fn line_of(bytes: &[u8], position: Option<&::csv::Position>) -> u64 {
    let Some(position) = position else { return 0 };
    let start = usize::try_from(position.byte()).unwrap_or(usize::MAX);
    let before = bytes.get(start..).unwrap_or_default().iter();
    let breaks = before.take_while(|byte| b"\r\n".contains(byte)).filter(|&&byte| byte == b'\n');
    position.line() + breaks.count() as u64
}

fn malformed(bytes: &[u8], error: &::csv::Error) -> Diagnostic {
    match error.kind() {
        ::csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = line_of(bytes, pos.as_ref());
            wrong(format!("line {line} has {len} numbers, the lines before it {expected_len}"))
        }
        _ => wrong(error.to_string()),
    }
}

fn wrong(what: String) -> Diagnostic {
    Diagnostic::invalid("Q0643", what)
        .help("expected decimals separated by commas, as many in every line")
}

/// One line per run along the innermost axis.
pub(super) fn write(array: &Tensor) -> Vec<u8> {
    let width = array.shape().last().copied().unwrap_or(1).max(1);
    let texts: Vec<String> = match array.to_i64() {
        Some(values) => values.iter().map(i64::to_string).collect(),
        None => array.to_f64().iter().map(f64::to_string).collect(),
    };
    texts.chunks(width).flat_map(|row| (row.join(",") + "\n").into_bytes()).collect()
}
