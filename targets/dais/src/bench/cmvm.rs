//! Products with constant matrices: adders, bits, depth and time of the optimiser.

use super::{DEPTH_SLACK, EFFORT, OBJECTIVE, files};
use crate::compile::cmvm::{self, Effort, Input, Problem, Settings, Solution};
use quincunx_contract::OptionInfo;
use quincunx_contract::bench::{Row, Run, Suite};
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::npy;
use std::path::Path;
use std::time::Instant;

/// The matrices of a folder.
pub(super) const KERNELS: Suite = Suite {
    name: "cmvm",
    doc: "adder graphs of the integer matrices of a folder, inputs of 8 signed bits; of an array of three dimensions the sums over its matrices",
    options: &[
        OptionInfo::text(
            "dir",
            "The folder of .npy files; rows are inputs, a first dimension of three counts matrices",
            "",
        ),
        OBJECTIVE,
        EFFORT,
        DEPTH_SLACK,
    ],
    run: kernels,
};

/// Matrices that publications compare with.
pub(super) const RANDOM: Suite = Suite {
    name: "random16",
    doc: "adder graphs of 60 random 16x16 matrices of weights from 129 to 255",
    options: &[EFFORT],
    run: random,
};

/// One solved matrix.
struct Solved {
    solution: Solution,
    seconds: f64,
}

/// Figures of one matrix or of several: sums, and the most levels.
#[derive(Clone, Copy, Default)]
struct Figures {
    adders: usize,
    bits: u64,
    luts: u64,
    depth: u32,
    /// Matrices whose adders are proved to be the fewest.
    optimal: usize,
    seconds: f64,
}

fn kernels(run: &Run) -> Result<Vec<Row>> {
    let settings = Settings::new(&run.options);
    let mut rows = Vec::new();
    let mut total = Figures::default();
    for path in files(run, "dir", "npy", "Q1141")? {
        let problems = read(&path).map_err(|problem| problem.name_file(&path.to_string_lossy()))?;
        let mut figures = Figures::default();
        for problem in &problems {
            figures.add(&measure(run, problem, &settings)?.figures());
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        rows.extend(figures.rows(&name));
        total.add(&figures);
    }
    rows.extend(total.rows("total"));
    Ok(rows)
}

impl Solved {
    fn figures(&self) -> Figures {
        let Solution { adders, bits, luts, depth, optimal, .. } = &self.solution;
        Figures {
            adders: adders.len(),
            bits: *bits,
            luts: *luts,
            depth: *depth,
            optimal: usize::from(*optimal),
            seconds: self.seconds,
        }
    }
}

impl Figures {
    fn add(&mut self, other: &Figures) {
        self.adders += other.adders;
        self.bits += other.bits;
        self.luts += other.luts;
        self.depth = self.depth.max(other.depth);
        self.optimal += other.optimal;
        self.seconds += other.seconds;
    }

    fn rows(&self, name: &str) -> [Row; 6] {
        let row = Row::named(name);
        [
            row("adders", self.adders as f64, "", 0),
            row("bits", self.bits as f64, "", 0),
            row("luts", self.luts as f64, "", 0),
            row("depth", f64::from(self.depth), "levels", 0),
            row("optimal", self.optimal as f64, "", 0),
            row("seconds", self.seconds, "s", 5),
        ]
    }
}

/// The matrix of a file, or its list of them.
fn read(path: &Path) -> Result<Vec<Problem>> {
    let bytes = std::fs::read(path).map_err(|error| {
        Diagnostic::system("Q1141", &format!("read {}", path.display()), &error)
    })?;
    let tensor = npy::read_npy(bytes)?;
    let refused = || {
        let message = format!("a {} array of shape {:?}", tensor.dtype(), tensor.shape());
        Diagnostic::unsupported("Q1142", message).help(
            "expected a matrix of integers of at most 48 bits, one row per input, or several of \
             one shape",
        )
    };
    let Some(weights) = tensor.to_i64() else { return Err(refused()) };
    let (count, rows, columns) = match *tensor.shape() {
        [rows, columns] => (1, rows, columns),
        [count, rows, columns] => (count, rows, columns),
        _ => return Err(refused()),
    };
    let size = rows * columns;
    let one = |at: usize| problem(rows, columns, weights[at * size..][..size].to_vec());
    (0..count).map(|at| one(at).ok_or_else(refused)).collect()
}

fn problem(rows: usize, columns: usize, weights: Vec<i64>) -> Option<Problem> {
    Problem::new(vec![Input { low: -128, high: 127, latency: 0 }; rows], columns, weights)
}

/// The solution, and the median of the seconds it takes.
fn measure(run: &Run, problem: &Problem, settings: &Settings) -> Result<Solved> {
    let begin = Instant::now();
    let solution = cmvm::solve(problem, settings)?;
    let mut seconds = vec![begin.elapsed().as_secs_f64()];
    while seconds.len() < run.repeat.get() {
        let begin = Instant::now();
        std::hint::black_box(cmvm::solve(problem, settings)?);
        seconds.push(begin.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok(Solved { solution, seconds: seconds[seconds.len() / 2] })
}

fn random(run: &Run) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let effort = Effort::new(&run.options);
    for (name, depth_slack) in [("free", None), ("slack2", Some(2)), ("slack0", Some(0))] {
        let settings = Settings::of(effort, depth_slack);
        let (mut adders, mut slowest) = (0, 0.0_f64);
        let problems = random_problems(60)?;
        for problem in &problems {
            let solved = measure(run, problem, &settings)?;
            adders += solved.solution.adders.len();
            slowest = slowest.max(solved.seconds);
        }
        let mean = adders as f64 / problems.len() as f64;
        let row = Row::named(name);
        rows.push(row("mean_adders", mean, "", 2));
        rows.push(row("max_seconds", slowest, "s", 5));
    }
    Ok(rows)
}

/// Matrices of 16 x 16 weights uniform in 129 to 255.
fn random_problems(count: usize) -> Result<Vec<Problem>> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut weight = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        129 + ((u128::from(state) * 127) >> 64) as i64
    };
    let mut next = || problem(16, 16, (0..256).map(|_| weight()).collect());
    (0..count).map(|_| next().ok_or_else(|| Diagnostic::bug("the weights are small"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_contract::Options;
    use quincunx_tensor::Tensor;
    use std::num::NonZeroUsize;

    fn run(dir: &Path, slack: &str) -> Run {
        let text = |text: &str| text.to_owned();
        let given = [
            (text("dir"), dir.to_string_lossy().into_owned()),
            (text("effort"), text("fast")),
            (text("depth-slack"), text(slack)),
        ];
        let options = Options::new(KERNELS.options, &given).unwrap();
        Run { threads: NonZeroUsize::MIN, repeat: NonZeroUsize::MIN, options }
    }

    fn value(rows: &[Row], name: &str, metric: &str) -> f64 {
        rows.iter().find(|row| row.name == name && row.metric == metric).unwrap().value
    }

    /// Counted by hand: 3x, 5x and 3x + 5y take one, one and three adders.
    #[test]
    fn figures_of_kernels_add_up() {
        let folder = tempfile::tempdir().unwrap();
        let problem = kernels(&run(folder.path(), "-1")).unwrap_err();
        assert_eq!(problem.code(), "Q1141");
        let write = |name: &str, tensor: Tensor| {
            std::fs::write(folder.path().join(name), npy::write_npy(&tensor)).unwrap();
        };
        write("a.npy", Tensor::from_vec(&[1, 2], vec![3_i32, 5]).unwrap());
        write("b.npy", Tensor::from_vec(&[2, 1], vec![3_i64, 5]).unwrap());
        let rows = kernels(&run(folder.path(), "0")).unwrap();
        assert_eq!(value(&rows, "a", "adders"), 2.0);
        assert_eq!(value(&rows, "a", "depth"), 1.0);
        // Above the lowest bit of 2x or 4x there are 8 bits of the sum, its sign included.
        assert_eq!(value(&rows, "a", "bits"), 8.0 + 8.0);
        assert_eq!(value(&rows, "b", "adders"), 3.0);
        assert_eq!(value(&rows, "b", "depth"), 2.0);
        assert_eq!(value(&rows, "total", "adders"), 5.0);
        assert_eq!(value(&rows, "total", "depth"), 2.0);
        // Two matrices of one list: 3x, and 5x and 9x.
        write("d.npy", Tensor::from_vec(&[2, 1, 2], vec![3_i32, 0, 5, 9]).unwrap());
        let rows = kernels(&run(folder.path(), "0")).unwrap();
        assert_eq!(value(&rows, "d", "adders"), 3.0);
        assert_eq!(value(&rows, "d", "optimal"), 2.0);
        assert_eq!(value(&rows, "d", "depth"), 1.0);
        write("c.npy", Tensor::from_vec(&[2], vec![3_i64, 5]).unwrap());
        let problem = kernels(&run(folder.path(), "0")).unwrap_err();
        assert_eq!(problem.code(), "Q1142");
    }

    #[test]
    fn random_matrices_are_those_of_the_publications() {
        let problems = random_problems(60).unwrap();
        let weights = |problem: &Problem| -> Vec<i64> {
            (0..256).map(|at| problem.weight(at / 16, at % 16)).collect()
        };
        let all: Vec<i64> = problems.iter().flat_map(weights).collect();
        assert_eq!((all.iter().min(), all.iter().max()), (Some(&129), Some(&255)));
        let mean = all.iter().sum::<i64>() as f64 / all.len() as f64;
        assert!((mean - 192.0).abs() < 1.5, "{mean}");
    }
}
