//! Input data: arrays by input name, split into images.

use crate::formats::Format;
use crate::{InputFile, convert};
use quincunx_contract::Sample;
use quincunx_diag::{Diagnostic, Result, did_you_mean};
use quincunx_graph::Graph;
use quincunx_tensor::{DType, Narrow, Tensor, Tensors, element_count, npy, show_shape};
use std::collections::BTreeMap;

/// Key of the expected classes in a `.npz` file.
const LABELS: &str = "labels";

/// Most elements of one generated input: 256 MiB of f32.
const MAX_GENERATED: usize = 1 << 26;

/// Most memory that data is made up for.
const MAX_GENERATED_BYTES: usize = 1 << 29;

/// An input that data is needed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputSpec {
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extents for one inference.
    pub shape: Vec<usize>,
    /// What made-up random numbers look like, for floats of 32 and 64 bits.
    pub sample: Sample,
}

impl InputSpec {
    /// The inputs of a graph.
    pub fn of(graph: &Graph) -> Vec<InputSpec> {
        let spec = |&id| {
            let value: &quincunx_graph::Value = &graph[id];
            InputSpec {
                name: value.name.clone(),
                dtype: value.dtype,
                shape: value.shape.to_vec(),
                sample: Sample::Fractions,
            }
        };
        graph.inputs().iter().map(spec).collect()
    }
}

/// Images for a network: one set of inputs each.
#[derive(Clone, Debug, Default)]
pub struct Dataset {
    /// Inputs by name, one entry per image.
    pub images: Vec<Tensors>,
    /// The expected class of every image.
    pub labels: Option<Vec<i64>>,
    /// Notes about how the file was understood.
    pub warnings: Vec<Diagnostic>,
    /// The file; `None` for data that was made up.
    pub file: Option<String>,
    /// Index of the first image in the file.
    pub first: usize,
}

impl Dataset {
    /// Reads a `.npy` or `.npz` file for these inputs; for a single input also rows of decimals
    /// (`.csv`) or a grey picture (PNG, PGM).
    ///
    /// Rows are filled into inputs of the shape that the network has; more rows are more images.
    /// An array whose outermost extent is not that of the input, where the input has 1 or lacks the
    /// axis, is a batch. Numbers are converted to the input's type when that is exact. A network
    /// with one input also takes the only array of a file, whatever its name.
    ///
    /// # Errors
    /// `Q0605` when the file is not a data file, an array is missing or does not fit; `Q0604` when
    /// numbers cannot be converted; those of [`npy`].
    pub fn read(file: &InputFile, inputs: &[InputSpec]) -> Result<Self> {
        Self::from_file(file, inputs).map_err(|problem| problem.name_file(&file.name))
    }

    /// The share of classes that are right; `None` where the right ones are not known.
    pub(crate) fn accuracy(&self, classes: impl Iterator<Item = Option<usize>>) -> Option<f64> {
        let labels = self.labels.as_ref()?;
        let hits = classes.zip(labels).filter(|(class, label)| {
            class.is_some_and(|class| i64::try_from(class) == Ok(**label))
        });
        Some(hits.count() as f64 / labels.len() as f64)
    }

    /// Data made up on the spot: `zeros`, `ones`, or `random:SEED` for `images` images of numbers
    /// between -1 and 1 (of the whole range for integer types of up to 8 bits, else of -128 to 127
    /// or 0 to 255; for the raw memory of a program, words of its width). `None` when the text says none of these.
    ///
    /// # Errors
    /// `Q0606` for a malformed seed, or inputs too large to make up.
    pub fn generate(text: &str, inputs: &[InputSpec], images: usize) -> Option<Result<Self>> {
        let fill: Fill = match text.split_once(':') {
            None if text == "zeros" => Fill::Same(0),
            None if text == "ones" => Fill::Same(1),
            Some(("random", seed)) => match seed.parse() {
                Ok(seed) => Fill::Random(Random(seed)),
                Err(_) => {
                    return Some(Err(Diagnostic::usage(
                        "Q0606",
                        format!("{seed:?} is not a seed, expected a number, as in random:7"),
                    )));
                }
            },
            _ => return None,
        };
        Some(generate(fill, inputs, images))
    }

    fn from_file(file: &InputFile, inputs: &[InputSpec]) -> Result<Self> {
        let arrays = match Format::of(&file.name, &file.bytes) {
            Some(format) => Tensors::from([(String::new(), read_other(format, file, inputs)?)]),
            None => read_arrays(file)?,
        };
        let mut dataset = Self::of_arrays(arrays, inputs)?;
        let warnings = std::mem::take(&mut dataset.warnings);
        dataset.warnings =
            warnings.into_iter().map(|warning| warning.name_file(&file.name)).collect();
        Ok(Dataset { file: Some(file.name.clone()), ..dataset })
    }

    /// Images of arrays by name, of which `labels` may be the classes. They are divided as those of a
    /// file are, and share its memory where types are equal.
    ///
    /// # Errors
    /// As [`Dataset::read`] about arrays.
    pub fn of_arrays(mut arrays: Tensors, inputs: &[InputSpec]) -> Result<Self> {
        let mut dataset = Dataset::default();
        let is_input = |name: &str| inputs.iter().any(|input| input.name == name);
        let labels = if is_input(LABELS) { None } else { arrays.remove(LABELS) };
        adopt_only_array(&mut arrays, inputs, &mut dataset.warnings);
        let unused = arrays.keys().filter(|name| !is_input(name));
        dataset.warnings.extend(unused.map(|name| {
            Diagnostic::warning(
                "Q0607",
                format!("array {name:?} is not an input, so it is not used"),
            )
            .help_if(did_you_mean(name, inputs.iter().map(|i| i.name.as_str())))
        }));
        dataset.images = split(&arrays, inputs)?;
        dataset.labels = labels.map(|l| read_labels(&l, dataset.images.len())).transpose()?;
        Ok(dataset)
    }
}

/// Arrays of several images each, that are the inputs and no more.
#[derive(Debug)]
pub struct Stack {
    /// By input, in the types of the inputs.
    pub(crate) arrays: Tensors,
    /// How many images.
    pub(crate) images: usize,
}

impl Stack {
    /// `None` where [`Dataset::of_arrays`] has more to say about the arrays.
    pub fn of_arrays(arrays: &Tensors, inputs: &[InputSpec]) -> Option<Stack> {
        if arrays.len() != inputs.len() {
            return None;
        }
        let fitted = |input: &InputSpec| {
            let (array, how) = fit(arrays.get(&input.name)?, input).ok()?;
            (how == Split::Outer).then(|| (input.name.clone(), array))
        };
        let arrays = inputs.iter().map(fitted).collect::<Option<Tensors>>()?;
        let images = *arrays.values().next()?.shape().first()?;
        let is_whole = images > 1 && arrays.values().all(|array| array.shape()[0] == images);
        is_whole.then_some(Stack { arrays, images })
    }

    /// The arrays, in the types of the inputs.
    pub fn into_arrays(self) -> Tensors {
        self.arrays
    }
}

/// An array of another form, in the shape of the only input, or of several of them.
fn read_other(format: Format, file: &InputFile, inputs: &[InputSpec]) -> Result<Tensor> {
    let [input] = inputs else {
        let message = format!("there are {} inputs, the file holds one array", inputs.len());
        return Err(Diagnostic::invalid("Q0605", message).help("give several in a .npz file"));
    };
    let array = format.read(&file.bytes, input.dtype)?;
    let one = element_count(&input.shape).filter(|&one| one > 0);
    match one {
        Some(one) if array.len() % one == 0 && !array.is_empty() && fits(format, &array, input) => {
            let images = [array.len() / one];
            array.reshape(&images.iter().chain(&input.shape).copied().collect::<Vec<_>>())
        }
        _ => Ok(array),
    }
}

/// Rows of decimals are rows of the input, or one image each; a picture has the extents of the
/// input, or the input is a list. Numbers never move to another row otherwise.
fn fits(format: Format, array: &Tensor, input: &InputSpec) -> bool {
    let wide = |shape: &[usize]| -> Vec<usize> {
        shape.iter().copied().filter(|&extent| extent != 1).collect()
    };
    let shape = wide(&input.shape);
    match format {
        Format::Csv => {
            let columns = array.shape().last();
            columns == input.shape.last() || columns == element_count(&input.shape).as_ref()
        }
        Format::Picture(_) => shape.len() <= 1 || wide(array.shape()) == shape,
    }
}

/// The arrays of a data file; the only one of a file that is not a `.npz` has the empty name.
pub(crate) fn read_arrays(file: &InputFile) -> Result<Tensors> {
    let bytes = &file.bytes;
    if bytes.starts_with(b"\x93NUMPY") {
        return Ok(Tensors::from([(String::new(), npy::read_npy(bytes.clone())?)]));
    }
    if bytes.starts_with(b"PK") {
        return npy::read_npz(bytes.clone());
    }
    if let Some(format) = Format::of(&file.name, bytes) {
        return Ok(Tensors::from([(String::new(), format.read(bytes, DType::F64)?)]));
    }
    Err(Diagnostic::invalid("Q0605", "expected data as .npy, .npz, .csv, .png or .pgm")
        .help("or give random:SEED, zeros or ones"))
}

/// Shapes of the arrays of a data file by name, where open extents of a model can take their size
/// from; none for a file whose rows say nothing about them.
///
/// # Errors
/// As [`Dataset::read`] about the file.
pub fn data_shapes(file: &InputFile) -> Result<BTreeMap<String, Vec<usize>>> {
    if Format::of(&file.name, &file.bytes).is_some() {
        return Ok(BTreeMap::new());
    }
    let mut arrays = read_arrays(file).map_err(|problem| problem.name_file(&file.name))?;
    arrays.remove(LABELS);
    Ok(arrays.into_iter().map(|(name, array)| (name, array.shape().to_vec())).collect())
}

/// For a network with one input, the only array is its data.
fn adopt_only_array(arrays: &mut Tensors, inputs: &[InputSpec], notes: &mut Vec<Diagnostic>) {
    let [input] = inputs else { return };
    if arrays.len() != 1 || arrays.contains_key(&input.name) {
        return;
    }
    if let Some((name, array)) = arrays.pop_first() {
        if !name.is_empty() {
            let text = format!("array {name:?} is taken as input {:?}", input.name);
            notes.push(Diagnostic::note("Q0607", text));
        }
        arrays.insert(input.name.clone(), array);
    }
}

/// How an array is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Split {
    /// It is one image.
    Whole,
    /// Its outermost axis counts images.
    Outer,
}

fn split(arrays: &Tensors, inputs: &[InputSpec]) -> Result<Vec<Tensors>> {
    let mut images: Vec<Tensors> = Vec::new();
    let mut first: Option<(&str, usize)> = None;
    for input in inputs {
        let array = find(arrays, input)?;
        let (array, how) = fit(array, input)?;
        let count = if how == Split::Whole { 1 } else { array.shape()[0] };
        match first {
            None => {
                first = Some((&input.name, count));
                images.resize_with(count, Tensors::new);
            }
            Some((other, expected)) if expected != count => {
                return Err(Diagnostic::invalid(
                    "Q0605",
                    format!(
                        "input {:?} has {count} images, input {other:?} has {expected}",
                        input.name
                    ),
                ));
            }
            Some(_) => {}
        }
        for (index, image) in images.iter_mut().enumerate() {
            quincunx_stop::check();
            let part = match how {
                Split::Whole => array.clone(),
                Split::Outer => array.outer(index).reshape(&input.shape)?,
            };
            image.insert(input.name.clone(), part);
        }
    }
    if inputs.is_empty() {
        images.push(Tensors::new());
    }
    if images.is_empty() {
        return Err(Diagnostic::invalid("Q0605", "the data holds no images"));
    }
    Ok(images)
}

fn find<'a>(arrays: &'a Tensors, input: &InputSpec) -> Result<&'a Tensor> {
    arrays.get(&input.name).ok_or_else(|| {
        let names: Vec<&str> = arrays.keys().map(String::as_str).collect();
        let found = match names[..] {
            [] => "the file holds no arrays".to_owned(),
            [""] => "the file holds one array without a name".to_owned(),
            _ => format!("the file holds {}", names.join(", ")),
        };
        let help = did_you_mean(&input.name, names).unwrap_or(found);
        Diagnostic::invalid("Q0605", format!("there is no array {:?}", input.name)).help(help)
    })
}

/// The array in the input's type, and how it divides.
fn fit(array: &Tensor, input: &InputSpec) -> Result<(Tensor, Split)> {
    let (found, one) = (array.shape(), &input.shape[..]);
    let how = if found == one {
        Split::Whole
    } else if found.len() == one.len() && one.first() == Some(&1) && found[1..] == one[1..]
        || found.len() == one.len() + 1 && found[1..] == *one
    {
        Split::Outer
    } else {
        return Err(Diagnostic::invalid(
            "Q0605",
            format!(
                "array {:?} is {}{}, expected {}{}",
                input.name,
                array.dtype(),
                show_shape(found),
                input.dtype,
                show_shape(one)
            ),
        )
        .help("several images are stacked along one outermost axis"));
    };
    let array = convert::exact(array, input.dtype)
        .map_err(|problem| problem.with_note(format!("in array {:?}", input.name)))?;
    Ok((array, how))
}

fn read_labels(array: &Tensor, images: usize) -> Result<Vec<i64>> {
    let flat = matches!(array.shape(), [_] | [_, 1]);
    let labels = convert::exact(array, DType::I64).ok().and_then(|labels| labels.to_i64());
    match labels {
        Some(labels) if flat && labels.len() == images => Ok(labels),
        _ => Err(Diagnostic::invalid(
            "Q0605",
            format!(
                "array \"{LABELS}\" is {}{}, expected one whole number for each of the {images} \
                 images",
                array.dtype(),
                show_shape(array.shape())
            ),
        )),
    }
}

enum Fill {
    Same(i64),
    Random(Random),
}

/// What a tensor takes besides its numbers.
const IMAGE_OVERHEAD: usize = 256;

fn generate(mut fill: Fill, inputs: &[InputSpec], images: usize) -> Result<Dataset> {
    let bytes = |input: &InputSpec| {
        let elements = quincunx_tensor::element_count(&input.shape).unwrap_or(usize::MAX);
        elements.saturating_mul(input.dtype.size()).saturating_add(IMAGE_OVERHEAD)
    };
    let per_image = inputs.iter().map(bytes).fold(0, usize::saturating_add);
    if per_image.saturating_mul(images) > MAX_GENERATED_BYTES {
        return Err(Diagnostic::usage(
            "Q0606",
            format!(
                "{images} images are too many to generate: more than {} MiB",
                MAX_GENERATED_BYTES >> 20
            ),
        ));
    }
    let mut dataset = Dataset::default();
    for _ in 0..images {
        let mut image = Tensors::new();
        for input in inputs {
            image.insert(input.name.clone(), fill.tensor(input)?);
        }
        dataset.images.push(image);
    }
    Ok(dataset)
}

impl Fill {
    fn tensor(&mut self, input: &InputSpec) -> Result<Tensor> {
        let count = element_count(&input.shape).filter(|&count| count <= MAX_GENERATED);
        let count = count.ok_or_else(|| {
            Diagnostic::unsupported(
                "Q0606",
                format!("input {:?} is too large to generate data for it", input.name),
            )
        })?;
        let values: Vec<f64> = (0..count).map(|_| self.number(input)).collect();
        convert::exact(&Tensor::from_vec(&input.shape, values)?, input.dtype)
    }

    /// A number that the type holds exactly.
    fn number(&mut self, input: &InputSpec) -> f64 {
        let random = match self {
            Fill::Same(value) => return *value as f64,
            Fill::Random(random) => random.next(),
        };
        match input.dtype {
            DType::F32 | DType::F64 => match input.sample {
                Sample::Words { keep, set } => (random & keep | set) as f64,
                // 24 bits between -1 and 1.
                Sample::Fractions => (random >> 40) as f64 / f64::from(1 << 23) - 1.0,
            },
            DType::Narrow(narrow) => made_up(narrow, random),
            DType::Bool => (random >> 63) as f64,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => (random >> 56) as f64,
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => (random >> 56) as f64 - 128.0,
        }
    }
}

/// A number of a narrow type: one of its codes that is a finite number, for floats of 16 bits
/// between -1 and 1.
fn made_up(narrow: Narrow, random: u64) -> f64 {
    if narrow.bits() == 16 {
        return (random >> 57) as f64 / 64.0 - 1.0;
    }
    let bits = narrow.bits();
    match narrow.signed() {
        Some(true) => (random >> (64 - bits)) as f64 - f64::from(1_u32 << (bits - 1)),
        Some(false) => (random >> (64 - bits)) as f64,
        // Powers of two are numbers of all formats.
        None => [0.5, 1.0, 2.0, 4.0][(random >> 62) as usize],
    }
}

/// The generator SplitMix64: the same numbers everywhere and in every version.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_tensor::npy::{write_npy, write_npz};

    fn spec(name: &str, dtype: DType, shape: &[usize]) -> InputSpec {
        InputSpec { name: name.to_owned(), dtype, shape: shape.to_vec(), sample: Sample::Fractions }
    }

    fn f32s(shape: &[usize]) -> Tensor {
        let count = element_count(shape).unwrap();
        Tensor::from_vec(shape, (0..count).map(|i| i as f32).collect()).unwrap()
    }

    fn npz(arrays: &[(&str, Tensor)]) -> InputFile {
        let arrays = arrays.iter().map(|(n, t)| ((*n).to_owned(), t.clone())).collect();
        InputFile { name: "d.npz".into(), path: None, bytes: write_npz(&arrays).unwrap().into() }
    }

    fn npy(array: &Tensor) -> InputFile {
        InputFile { name: "d.npy".into(), path: None, bytes: write_npy(array).into() }
    }

    fn message(file: &InputFile, inputs: &[InputSpec]) -> String {
        Dataset::read(file, inputs).unwrap_err().to_string()
    }

    #[test]
    fn a_batch_is_split_along_the_outermost_axis() {
        let input = [spec("image", DType::F32, &[1, 1, 2, 2])];
        let data = Dataset::read(&npz(&[("image", f32s(&[3, 1, 2, 2]))]), &input).unwrap();
        assert_eq!(data.images.len(), 3);
        assert_eq!(data.images[2]["image"].shape(), [1, 1, 2, 2]);
        assert_eq!(data.images[2]["image"].to_f64(), [8.0, 9.0, 10.0, 11.0]);
        // An input without a batch axis, and one that is exactly one image.
        let flat = [spec("image", DType::F32, &[2, 2])];
        assert_eq!(Dataset::read(&npy(&f32s(&[5, 2, 2])), &flat).unwrap().images.len(), 5);
        assert_eq!(Dataset::read(&npy(&f32s(&[2, 2])), &flat).unwrap().images.len(), 1);
    }

    #[test]
    fn labels_must_match_the_images() {
        let input = [spec("x", DType::F32, &[1, 2])];
        let labels = |n: usize| Tensor::from_vec(&[n], vec![7_u8; n]).unwrap();
        let with = |n| npz(&[("x", f32s(&[2, 2])), ("labels", labels(n))]);
        assert_eq!(Dataset::read(&with(2), &input).unwrap().labels, Some(vec![7, 7]));
        assert!(message(&with(3), &input).contains("labels"));
        let fractions = Tensor::from_vec(&[2], vec![0.5_f32, 1.0]).unwrap();
        assert!(
            message(&npz(&[("x", f32s(&[2, 2])), ("labels", fractions)]), &input).contains("whole")
        );
    }

    #[test]
    fn numbers_are_converted_only_when_exact() {
        let input = [spec("x", DType::F32, &[1, 1])];
        let halves = Tensor::from_vec(&[2, 1], vec![0.5_f64, 1.5]).unwrap();
        assert_eq!(Dataset::read(&npy(&halves), &input).unwrap().images[1]["x"].to_f64(), [1.5]);
        let tenths = Tensor::from_vec(&[2, 1], vec![0.5_f64, 0.1]).unwrap();
        assert!(message(&npy(&tenths), &input).contains("Q0604"));
    }

    #[test]
    fn missing_and_misnamed_arrays_are_named() {
        let inputs = [spec("image", DType::F32, &[1, 2]), spec("mask", DType::F32, &[1, 2])];
        let file = npz(&[("imagee", f32s(&[1, 2])), ("mask", f32s(&[1, 2]))]);
        assert!(message(&file, &inputs).contains("did you mean \"imagee\"?"));
        let other = npz(&[("image", f32s(&[1, 2])), ("mask", f32s(&[3, 2]))]);
        assert!(message(&other, &inputs).contains("3 images"));
        assert!(
            message(&npz(&[("image", f32s(&[1, 3])), ("mask", f32s(&[1, 2]))]), &inputs)
                .contains("expected f32[1, 2]")
        );
        // One input takes the only array; which of two would be a guess.
        let one = [spec("image", DType::F32, &[1, 2])];
        let data = Dataset::read(&npz(&[("x", f32s(&[4, 2]))]), &one).unwrap();
        assert_eq!((data.images.len(), data.warnings.len()), (4, 1));
        assert!(
            message(&npz(&[("x", f32s(&[4, 2])), ("y", f32s(&[4, 2]))]), &one).contains("x, y")
        );
    }

    #[test]
    fn arrays_that_are_no_input_are_reported() {
        let input = [spec("x", DType::F32, &[1, 2])];
        let data =
            Dataset::read(&npz(&[("x", f32s(&[1, 2])), ("X2", f32s(&[1]))]), &input).unwrap();
        assert_eq!(data.warnings.len(), 1);
    }

    #[test]
    fn no_image_is_an_error() {
        let input = [spec("x", DType::F32, &[1, 2])];
        assert!(message(&npz(&[("x", f32s(&[0, 2]))]), &input).contains("no image"));
        assert!(message(&npz(&[]), &input).contains("no array"));
    }

    #[test]
    fn generated_data_is_reproducible() {
        let inputs = [spec("x", DType::F32, &[1, 8]), spec("c", DType::I8, &[4])];
        let make = |text: &str| Dataset::generate(text, &inputs, 2).unwrap().unwrap().images;
        assert_eq!(make("random:1"), make("random:1"));
        assert_ne!(make("random:1"), make("random:2"));
        assert_ne!(make("random:1")[0], make("random:1")[1]);
        assert!(make("random:1")[0]["x"].to_f64().iter().all(|v| (-1.0..1.0).contains(v)));
        assert_eq!(make("ones")[1]["c"].to_f64(), [1.0; 4]);
        assert!(Dataset::generate("random:x", &inputs, 1).unwrap().is_err());
        assert!(Dataset::generate("data.npz", &inputs, 1).is_none());
        let huge = [spec("x", DType::F32, &[1 << 30])];
        assert!(Dataset::generate("zeros", &huge, 1).unwrap().is_err());
    }

    #[test]
    fn bytes_that_are_no_data_are_refused() {
        let input = [spec("x", DType::F32, &[1, 2])];
        for bytes in [&b""[..], b"PK", b"PK\x03\x04zzz", b"\x93NUMPY", b"{}"] {
            let file = InputFile { name: "d".into(), path: None, bytes: bytes.to_vec().into() };
            let problem = Dataset::read(&file, &input).unwrap_err();
            assert_eq!(problem.class().exit_code(), 3, "{bytes:?}");
        }
    }
}
