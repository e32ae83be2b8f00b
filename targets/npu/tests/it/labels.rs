//! Workloads that are not what their numbers say.

use crate::common::{arch, fragment, parse};
use quincunx_diag::Diagnostic;
use quincunx_npu::program::Program;
use quincunx_npu::verify::{Subject, mislabelled, verify};
use quincunx_npu::work::{Conv, Resolved, Vector, Work, resolve};

const CONVS: &str = "f05_streamed_weights_4_tiles";
const VECTORS: &str = "f09_batch_vp_self_tokens";

/// A program and its work, of which tests change something.
struct Case {
    program: Program,
    work: Vec<Resolved>,
}

impl Case {
    fn new(stem: &str) -> Case {
        let program = parse(&fragment(stem));
        let work = resolve(&program);
        Case { program, work }
    }

    fn lines(&self, of: fn(&Work) -> bool) -> Vec<usize> {
        let own = |&line: &usize| self.work[line].as_ref().is_ok_and(of);
        (0..self.work.len()).filter(own).collect()
    }

    fn compute(&self) -> Vec<usize> {
        self.lines(|work| matches!(work, Work::Conv(_) | Work::Vector(_)))
    }

    fn conv(&mut self, number: usize) -> &mut Conv {
        let line = self.compute()[number];
        match &mut self.work[line] {
            Ok(Work::Conv(conv)) => conv,
            other => panic!("{other:?}"),
        }
    }

    fn vector(&mut self, number: usize) -> &mut Vector {
        let line = self.compute()[number];
        match &mut self.work[line] {
            Ok(Work::Vector(vector)) => vector,
            other => panic!("{other:?}"),
        }
    }

    fn found(&self) -> (Vec<(usize, String)>, Vec<Diagnostic>) {
        let (arch, programs, work) = (arch(), [&self.program], [self.work.clone()]);
        let subject = Subject { programs: &programs, work: &work, arch: &arch };
        let found = mislabelled(&subject).into_iter().map(|(node, what)| (node.line, what));
        let problems = verify(&subject);
        (found.collect(), problems.into_iter().filter(|p| p.code() == "Q4042").collect())
    }

    /// One violation, at this line of those that compute, in these words; one warning.
    fn expect(&self, number: usize, what: &str) {
        let (found, warnings) = self.found();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, self.compute()[number], "{found:?}");
        assert!(found[0].1.contains(what), "{found:?}");
        assert_eq!(warnings.len(), 1);
        assert!(!warnings[0].is_error() && warnings[0].message().contains(what), "{warnings:?}");
    }
}

#[test]
fn fragments_are_labelled_rightly() {
    for stem in crate::common::fragments() {
        let (found, warnings) = Case::new(&stem).found();
        assert!(found.is_empty() && warnings.is_empty(), "{stem}: {found:?}");
    }
}

#[test]
fn lines_of_different_layers_or_queues() {
    let mut case = Case::new(CONVS);
    let line = case.compute()[2];
    case.program.lines[line].map.as_mut().unwrap().slyr += 1;
    case.expect(2, "is of another layer than");
    let (mut case, mut other) = (Case::new(CONVS), Case::new(VECTORS));
    let line = case.compute()[1];
    case.work[line] = Ok(Work::Vector(*other.vector(0)));
    case.expect(1, "is not of the queue of");
}

#[test]
fn other_shapes() {
    let mut case = Case::new(CONVS);
    case.conv(3).kernel = [2, 2];
    case.expect(3, "has another kernel or other tensors than");
    let mut case = Case::new(CONVS);
    case.conv(1).dest[2] += 1;
    case.expect(1, "has another kernel or other tensors than");
}

/// The first tile is the largest in every respect in which the others are charged as it is.
#[test]
fn a_first_tile_that_is_not_the_largest() {
    let mut case = Case::new(CONVS);
    case.conv(0).tile[3] /= 2;
    case.expect(1, "takes longer than");
    // As many products, by a slower mini tile.
    let mut case = Case::new(CONVS);
    case.conv(2).mini_image = [0, 0];
    case.expect(2, "takes longer than");
    // Faster with more products, and with more weights.
    let mut case = Case::new(CONVS);
    case.conv(0).mini_image = [0, 0];
    case.conv(3).tile[0] += 1;
    case.expect(3, "computes more than");
    let mut case = Case::new(CONVS);
    for number in 0..4 {
        case.conv(number).mini_image = [0, 0];
    }
    let conv = case.conv(1);
    conv.tile[1] *= 2;
    conv.tile[3] /= 4;
    conv.mini_image = [3, 3];
    case.expect(1, "needs more weights than");
}

/// Tiles of one box come in any order, and may go round the end of a ring.
#[test]
fn boxes() {
    // The order in which they are computed does not matter.
    let mut case = Case::new(CONVS);
    let (first, last) = (case.conv(0).output, case.conv(3).output);
    (case.conv(0).output, case.conv(3).output) = (last, first);
    assert_eq!(case.found().0, []);
    // A gap, and results that are computed twice.
    let mut case = Case::new(CONVS);
    case.conv(3).output.address += 64;
    case.expect(3, "do not fill one box");
    let mut case = Case::new(CONVS);
    case.conv(2).output = case.conv(1).output;
    case.expect(3, "do not fill one box");
    // A smaller last tile leaves a hole in the middle, or is at the end.
    let mut case = Case::new(CONVS);
    case.conv(1).tile[3] -= 1;
    case.expect(3, "do not fill one box");
    let mut case = Case::new(CONVS);
    case.conv(3).tile[1] -= 8;
    assert_eq!(case.found().0, []);
    // Rows instead of channels: the second half of the rows after the first.
    let rows = |gap: i64| {
        let mut case = Case::new(CONVS);
        let convs = case.lines(|work| matches!(work, Work::Conv(_)));
        convs[2..].iter().for_each(|&line| case.work[line] = Ok(Work::Configure));
        let half = case.conv(0).tile[3] / 2;
        let output = case.conv(0).output;
        let row = i64::from(case.conv(0).dest[2] * case.conv(0).dest[0]);
        for number in 0..2 {
            let conv = case.conv(number);
            conv.tile[3] = half;
            conv.output = output;
        }
        case.conv(1).output.address += (i64::from(half) + gap) * row;
        case
    };
    assert_eq!(rows(0).found().0, []);
    rows(1).expect(1, "do not fill one box");
    // The second half lies at the begin of the ring of 8 MiB.
    let mut case = rows(0);
    let (low, high) = (case.conv(0).output.address, case.conv(1).output.address);
    case.conv(0).output.address = (8 << 20) - (high - low);
    case.conv(1).output.address = 0;
    assert_eq!(case.found().0, []);
    case.conv(1).output.address = 64;
    case.expect(1, "do not fill one box");
}

#[test]
fn vector_instructions_of_other_extents() {
    let mut case = Case::new(VECTORS);
    case.vector(2).config.tile[1] -= 1;
    case.expect(2, "has other extents than");
}

/// Images of a batch do not touch each other. Those that share both addresses are the subject of
/// another warning, and of that alone.
#[test]
fn vector_instructions_on_one_image() {
    let mut case = Case::new(VECTORS);
    case.vector(3).output = case.vector(1).output;
    case.expect(3, "works on the image of");
    let mut case = Case::new(VECTORS);
    case.vector(3).input = case.vector(1).input;
    case.expect(3, "works on the image of");
    // Half an image further, as a piece of rows would be.
    let mut case = Case::new(VECTORS);
    let [_, h, w] = case.vector(0).config.dest.map(i64::from);
    let pixel = case.vector(1).output.address - case.vector(0).output.address;
    case.vector(1).output.address = case.vector(0).output.address + h / 2 * w * (pixel / (h * w));
    case.expect(1, "works on the image of");
    // All four at one place.
    let mut case = Case::new(VECTORS);
    let (input, output) = (case.vector(0).input, case.vector(0).output);
    for number in 1..4 {
        (case.vector(number).input, case.vector(number).output) = (input, output);
    }
    let (found, warnings) = case.found();
    assert_eq!((found.len(), warnings.len()), (1, 0), "{found:?}");
    let problems = crate::common::problems(&[case.program]);
    assert!(problems.iter().all(|problem| problem.code() != "Q4042"));
}

/// Images that go round a ring are as far apart as the ring says.
#[test]
fn images_round_a_ring() {
    let mut case = Case::new(VECTORS);
    let image = case.vector(1).output.address - case.vector(0).output.address;
    let ring = 8 << 20;
    for number in 0..4 {
        case.vector(number).output.address = (ring - image + number as i64 * image) % ring;
    }
    assert_eq!(case.found().0, []);
    case.vector(0).output.address += 8;
    case.expect(1, "works on the image of");
}

/// One warning for a program, however many workloads are wrong.
#[test]
fn violations_are_counted() {
    let mut case = Case::new(VECTORS);
    case.vector(3).input = case.vector(1).input;
    let mut twice = case.program.clone();
    twice.lines.extend(case.program.lines.clone());
    let mut work = case.work.clone();
    work.extend(case.work.clone());
    let case = Case { program: twice, work };
    let (found, warnings) = case.found();
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].message().contains("2 workloads"), "{warnings:?}");
}
