//! Solutions against the product itself, computed from numbers, and against brute force.

use super::random::Random;
use super::*;
use quincunx_testkit::within_seconds;
use std::collections::BTreeSet;

const FREE: Settings =
    Settings { objective: Objective::Adders, effort: Effort::Fast, depth_slack: None };

fn bounded(slack: u32) -> Settings {
    Settings { depth_slack: Some(slack), ..FREE }
}

fn bytes(rows: usize) -> Vec<Input> {
    vec![Input { low: -128, high: 127, latency: 0 }; rows]
}

fn problem(inputs: Vec<Input>, columns: usize, weights: Vec<i64>) -> Problem {
    Problem::new(inputs, columns, weights).unwrap()
}

/// Runs the adders on numbers and compares with the product; every sum lies in its range.
fn check(problem: &Problem, settings: &Settings, random: &mut Random) -> Solution {
    let solution = solve(problem, settings).unwrap();
    for round in 0..8 {
        let pick = |input: &Input| match round {
            0 => input.low,
            1 => input.high,
            _ => {
                let count = (input.high - input.low + 1) as usize;
                input.low + random.below(count) as i64
            }
        };
        let x: Vec<i128> = problem.inputs().iter().map(pick).map(i128::from).collect();
        // Fractions of 2^64 hold every shift.
        let mut nodes: Vec<i128> = x.iter().map(|x| x << 40).collect();
        for adder in &solution.adders {
            let b = nodes[adder.b];
            let b = if adder.shift < 0 { b >> -adder.shift } else { b << adder.shift };
            let value = if adder.subtract { nodes[adder.a] - b } else { nodes[adder.a] + b };
            let step = 1_i128 << (40 + adder.range.exponent);
            assert_eq!(value % step, 0, "the step divides the value");
            assert!((adder.range.low..=adder.range.high).contains(&(value / step)), "in range");
            nodes.push(value);
        }
        for column in 0..problem.columns() {
            let rows = x.iter().enumerate();
            let expected: i128 =
                rows.map(|(row, x)| x * i128::from(problem.weight(row, column))).sum();
            let found = solution.outputs[column].map_or(0, |output| {
                let node = nodes[output.node];
                let value =
                    if output.shift < 0 { node >> -output.shift } else { node << output.shift };
                if output.negate { -value } else { value }
            });
            assert_eq!(found, expected << 40, "column {column}");
        }
    }
    solution
}

/// The longest chain of adders to an output, from the adders alone.
fn depth(problem: &Problem, solution: &Solution) -> u32 {
    let mut levels: Vec<u32> = problem.inputs().iter().map(|input| input.latency).collect();
    for adder in &solution.adders {
        levels.push(1 + levels[adder.a].max(levels[adder.b]));
    }
    solution.outputs.iter().flatten().map(|output| levels[output.node]).max().unwrap_or(0)
}

fn random_matrix(random: &mut Random, rows: usize, columns: usize) -> Vec<i64> {
    let bits = 1 + random.below(14);
    let zeros = random.below(200) as u32;
    let mut weight = || match random.chance(zeros) {
        true => 0,
        false => random.below(2 << bits) as i64 - (1 << bits),
    };
    (0..rows * columns).map(|_| weight()).collect()
}

#[test]
fn random_products_are_exact() {
    let mut random = Random::new(7);
    for case in 0..120 {
        let (rows, columns) = (random.below(10), random.below(10));
        let mut weights = random_matrix(&mut random, rows, columns);
        if case % 4 == 0 && rows > 0 && columns > 1 {
            // Columns of zeros, and columns that are others shifted.
            (0..rows).for_each(|row| weights[row * columns] = 0);
            (0..rows).for_each(|row| {
                weights[row * columns + 1] = -4 * weights[row * columns + columns - 1]
            });
        }
        let mut inputs = bytes(rows);
        for input in inputs.iter_mut().filter(|_| case % 3 == 0) {
            let low = random.below(4000) as i64 - 2000;
            *input = Input {
                low,
                high: low + random.below(3000) as i64,
                latency: random.below(5) as u32,
            };
        }
        let problem = problem(inputs, columns, weights);
        check(&problem, &FREE, &mut random);
        check(&problem, &bounded(case % 3), &mut random);
    }
}

#[test]
fn other_efforts_are_exact_and_no_worse() {
    let mut random = Random::new(11);
    let weights = random_matrix(&mut random, 6, 6);
    let problem = problem(bytes(6), 6, weights);
    let efforts = [Effort::Fast, Effort::Default, Effort::Max];
    let costs = efforts.map(|effort| {
        let settings = Settings { effort, ..FREE };
        check(&problem, &settings, &mut random).goals(Objective::Adders)
    });
    assert!(costs[0] >= costs[1] && costs[1] >= costs[2], "{costs:?}");
}

/// A Sylvester matrix of size 2^n takes n * 2^n adders in butterflies, running sums one each, and a
/// matrix of low rank little more than its factors.
#[test]
fn structure_is_found() {
    let mut random = Random::new(12);
    let size = 16;
    let sign = |row: usize, column: usize| 1 - 2 * i64::from((row & column).count_ones() % 2);
    let square = |weight: &dyn Fn(usize, usize) -> i64| -> Problem {
        let weights = (0..size * size).map(|at| weight(at / size, at % size)).collect();
        problem(bytes(size), size, weights)
    };
    let hadamard = check(&square(&sign), &FREE, &mut random);
    assert!(hadamard.adders.len() <= 4 * size, "{}", hadamard.adders.len());
    let running = check(&square(&|row, column| i64::from(row <= column)), &FREE, &mut random);
    assert_eq!(running.adders.len(), size - 1);
    let left: Vec<i64> = (0..size).map(|_| random.below(15) as i64 - 7).collect();
    let right: Vec<i64> = (0..size).map(|_| random.below(15) as i64 - 7).collect();
    let outer = check(&square(&|row, column| left[row] * right[column]), &FREE, &mut random);
    let digits = |values: &[i64]| values.iter().map(|&v| digits::count(v) as usize).sum::<usize>();
    assert!(outer.adders.len() < digits(&left) + digits(&right), "{}", outer.adders.len());
}

/// Kronecker products of sizes that are not powers of two, rows and columns among them.
#[test]
fn kronecker_products_are_computed_by_their_factors() {
    let mut random = Random::new(13);
    for (outer, inner) in [((3, 2), (2, 5)), ((1, 3), (4, 4)), ((4, 1), (3, 3))] {
        let mut matrix = |size: (usize, usize)| -> Vec<i64> {
            (0..size.0 * size.1).map(|_| random.below(31) as i64 - 15).collect()
        };
        let (a, b) = (matrix(outer), matrix(inner));
        let (rows, columns) = (outer.0 * inner.0, outer.1 * inner.1);
        let weight = |at: usize| {
            let (row, column) = (at / columns, at % columns);
            let of_a = a[row / inner.0 * outer.1 + column / inner.1];
            of_a * b[row % inner.0 * inner.1 + column % inner.1]
        };
        let weights = (0..rows * columns).map(weight).collect();
        let problem = problem(bytes(rows), columns, weights);
        let mut solve = |part: &Problem, _| system::of_digits(part).0;
        for system in structure::systems(&problem, &mut solve) {
            let (adders, outputs) = trees::adders(&problem, &system, None, Effort::Default);
            prove::prove(&problem, adders, &outputs).unwrap();
        }
        assert!(!structure::systems(&problem, &mut solve).is_empty(), "{outer:?} {inner:?}");
    }
}

/// Rows that differ in signs, and columns that grow by what grows itself, with zeros, repeated rows
/// and columns among them: every system is right, and `fast` finds what is cheap.
#[test]
fn signs_and_steps_are_structure() {
    let mut random = Random::new(15);
    for (size, most) in [(2, 4), (7, 50), (16, 165)] {
        let weight = |row: usize, column: usize| {
            let wave = (2 * row + 1) as f64 * column as f64 / (2 * size) as f64;
            (wave * std::f64::consts::PI).cos() * 64.0
        };
        let cosines: Vec<i64> =
            (0..size * size).map(|at| weight(at / size, at % size).round() as i64).collect();
        let solution = check(&problem(bytes(size), size, cosines), &FREE, &mut random);
        assert!(solution.adders.len() <= most, "{size}: {}", solution.adders.len());
    }
    let size = 24;
    let triangle = |at: usize| (at % size).saturating_sub(at / size) as i64;
    let solution = check(
        &problem(bytes(size), size, (0..size * size).map(triangle).collect()),
        &FREE,
        &mut random,
    );
    assert!(solution.adders.len() <= 2 * size, "sums of sums: {}", solution.adders.len());
    for round in 0..40 {
        let (rows, columns) = (2 + random.below(9), 2 + random.below(9));
        let first: Vec<i64> = (0..columns).map(|_| random.below(9) as i64 - 4).collect();
        let mut line = vec![0; columns];
        let mut weights = Vec::new();
        for _ in 0..rows {
            for (weight, first) in line.iter_mut().zip(&first) {
                let sign = random.below(3) as i64 - 1;
                *weight = if round % 2 == 0 { sign * first } else { *weight + sign };
            }
            weights.extend(&line);
        }
        let problem = problem(bytes(rows), columns, weights);
        let mut solve = |part: &Problem, _| system::of_digits(part).0;
        for system in structure::systems(&problem, &mut solve) {
            let (adders, outputs) = trees::adders(&problem, &system, None, Effort::Fast);
            prove::prove(&problem, adders, &outputs).unwrap();
        }
    }
}

/// What is wanted first is no more than if few adders are, and now and then less.
#[test]
fn objectives_get_what_they_want() {
    let mut random = Random::new(16);
    for effort in [Effort::Fast, Effort::Default] {
        let mut gains = [0; 4];
        for _ in 0..6 {
            let weights = random_matrix(&mut random, 8, 8);
            let problem = problem(bytes(8), 8, weights);
            let all = [Objective::Adders, Objective::Bits, Objective::Luts, Objective::Depth];
            let found = all.map(|objective| {
                check(&problem, &Settings { objective, effort, ..FREE }, &mut random)
            });
            let figures = found.each_ref().map(|solution| {
                let adders = solution.adders.len() as u64;
                [adders, solution.bits, solution.luts, u64::from(solution.depth)]
            });
            for first in 0..4 {
                assert!(figures[first][first] <= figures[0][first], "{first}: {figures:?}");
                gains[first] += figures[0][first] - figures[first][first];
            }
            assert_eq!(figures[3][3], u64::from(state::least_levels(&problem)));
        }
        assert!(gains[1..].iter().all(|&gain| gain > 0), "{gains:?}");
    }
}

/// A bound that the result without one meets gives that result.
#[test]
fn bounds_that_do_not_bind_change_nothing() {
    let mut random = Random::new(14);
    for _ in 0..4 {
        let problem = problem(bytes(5), 5, random_matrix(&mut random, 5, 5));
        let free = check(&problem, &FREE, &mut random);
        let slack = free.depth - u32::from(state::least_levels(&problem));
        let bound = check(&problem, &bounded(slack), &mut random);
        assert!(
            bound.goals(Objective::Adders) <= free.goals(Objective::Adders),
            "{:?} {:?}",
            bound.goals(Objective::Adders),
            free.goals(Objective::Adders)
        );
    }
}

#[test]
fn edge_shapes() {
    let mut random = Random::new(3);
    for (rows, columns, weights) in [
        (0, 0, vec![]),
        (0, 3, vec![]),
        (3, 0, vec![]),
        (2, 2, vec![0; 4]),
        (1, 1, vec![1]),
        (1, 1, vec![-8]),
        (1, 3, vec![12, -3, 24]),
        (3, 1, vec![1, 1, 1]),
        (2, 2, vec![1 << 40, -(1 << 40) + 1, (1 << 47) - 1, 3]),
    ] {
        let problem = problem(bytes(rows), columns, weights);
        check(&problem, &FREE, &mut random);
        check(&problem, &bounded(0), &mut random);
    }
    assert!(check(&problem(bytes(1), 3, vec![12, -3, 24]), &FREE, &mut random).adders.len() == 1);
}

/// Too large numbers are refused, not wrapped.
#[test]
fn limits() {
    assert!(Problem::new(bytes(1), 1, vec![1 << 48]).is_none());
    assert!(Problem::new(bytes(1), 1, vec![-(1 << 48)]).is_none());
    let wide = Input { low: i64::MIN, high: i64::MAX, latency: 0 };
    assert!(Problem::new(vec![wide], 1, vec![1 << 40]).is_some());
    assert!(Problem::new(vec![Input { latency: u32::MAX, ..wide }], 1, vec![1]).is_none());
}

/// The fewest adders, up to three, of every odd constant below 1024, by growing sets of numbers: nothing
/// here knows digits or chains.
fn fewest_adders() -> Vec<usize> {
    const TOP: i64 = 1 << 11;
    let odd = |value: i64| value >> value.trailing_zeros();
    let sums = |a: i64, b: i64| {
        let mut all = BTreeSet::new();
        for shift in 0..12 {
            for (x, y) in [(a << shift, b), (a, b << shift)] {
                all.extend(
                    [x + y, (x - y).abs()].into_iter().filter(|v| *v > 0 && odd(*v) < TOP).map(odd),
                );
            }
        }
        all
    };
    let mut fewest = vec![usize::MAX; TOP as usize];
    fewest[1] = 0;
    let reach = |fewest: &mut Vec<usize>, value: i64, adders: usize| {
        fewest[value as usize] = fewest[value as usize].min(adders);
    };
    for first in sums(1, 1) {
        reach(&mut fewest, first, 1);
        let mut seconds = BTreeSet::new();
        for (a, b) in [(1, 1), (first, 1), (first, first)] {
            seconds.extend(sums(a, b));
        }
        for second in seconds {
            reach(&mut fewest, second, 2);
            let values = [1, first, second];
            for (at, &a) in values.iter().enumerate() {
                for &b in &values[..=at] {
                    sums(a, b).into_iter().for_each(|third| reach(&mut fewest, third, 3));
                }
            }
        }
    }
    fewest
}

#[test]
fn single_constants_need_the_fewest_adders() {
    let mut random = Random::new(5);
    let fewest = fewest_adders();
    let mut counts = [0; 5];
    for constant in (1..1024).step_by(2) {
        let problem = problem(bytes(1), 1, vec![constant]);
        let solution = check(&problem, &FREE, &mut random);
        // Three adders make all but some constants, four those.
        let fewest = fewest[constant as usize].min(4);
        assert_eq!(solution.adders.len(), fewest, "{constant}");
        assert!(solution.optimal, "{constant}");
        counts[fewest] += 1;
    }
    assert_eq!(counts.iter().sum::<usize>(), 512);
    assert!(counts[3] > 100 && counts[2] > 100, "{counts:?}");
}

/// All odd sums and differences of two shifted forms of two inputs, the first factor positive.
fn sums_of_forms(a: [i64; 2], b: [i64; 2]) -> BTreeSet<[i64; 2]> {
    let mut all = BTreeSet::new();
    for shift in 0..6 {
        for (x, y) in [(a.map(|v| v << shift), b), (a, b.map(|v| v << shift))] {
            for sign in [-1, 1] {
                let sum = [x[0] + sign * y[0], x[1] + sign * y[1]];
                if let Some(first) = sum.iter().find(|&&v| v != 0) {
                    let zeros = (sum[0] | sum[1]).trailing_zeros();
                    all.insert(sum.map(|v| (v >> zeros) * first.signum()));
                }
            }
        }
    }
    all
}

/// The fewest adders, up to three, for one or two columns of two inputs, by growing sets of forms.
fn fewest_for_forms(columns: &[[i64; 2]]) -> Option<usize> {
    let inputs = vec![[1, 0], [0, 1]];
    let odd = |column: &[i64; 2]| {
        let first = column.iter().find(|&&v| v != 0)?;
        let zeros = (column[0] | column[1]).trailing_zeros();
        Some(column.map(|v| (v >> zeros) * first.signum()))
    };
    let targets: BTreeSet<[i64; 2]> = columns.iter().filter_map(odd).collect();
    let has = |nodes: &Vec<[i64; 2]>| targets.iter().all(|target| nodes.contains(target));
    let grown = |nodes: &Vec<[i64; 2]>| -> Vec<Vec<[i64; 2]>> {
        let mut next = BTreeSet::new();
        for (at, &a) in nodes.iter().enumerate() {
            nodes[..=at].iter().for_each(|&b| next.extend(sums_of_forms(a, b)));
        }
        next.into_iter().map(|form| [&nodes[..], &[form]].concat()).collect()
    };
    let one = grown(&inputs);
    let fewest = |all: &[Vec<[i64; 2]>]| all.iter().any(has);
    if has(&inputs) {
        return Some(0);
    }
    if fewest(&one) {
        return Some(1);
    }
    let missing = |nodes: &Vec<[i64; 2]>| targets.iter().filter(|t| !nodes.contains(t)).count();
    let two = || one.iter().flat_map(grown);
    if two().any(|nodes| has(&nodes)) {
        return Some(2);
    }
    let last = |nodes: Vec<[i64; 2]>| missing(&nodes) == 1 && grown(&nodes).iter().any(has);
    two().any(last).then_some(3)
}

#[test]
fn tiny_matrices_need_the_fewest_adders() {
    let mut random = Random::new(31);
    let mut seen = [0; 5];
    for case in 0..40 {
        let columns = 1 + case % 2;
        let mut weight = || random.below(23) as i64 - 11;
        let all: Vec<[i64; 2]> = (0..columns).map(|_| [weight(), weight()]).collect();
        let weights = (0..2).flat_map(|row| all.iter().map(move |column| column[row])).collect();
        let problem = problem(bytes(2), columns, weights);
        let settings = Settings { effort: Effort::Default, ..FREE };
        let found = check(&problem, &settings, &mut random);
        match fewest_for_forms(&all) {
            Some(fewest) => {
                assert_eq!(found.adders.len(), fewest, "{all:?}");
                assert!(found.optimal, "{all:?}");
            }
            None => assert!(found.adders.len() > 3, "{all:?}"),
        }
        seen[found.adders.len().min(4)] += 1;
    }
    assert!(seen[2] > 4 && seen[3] > 4 && seen[4] > 4, "{seen:?}");
}

/// The minimum is that of a tree over all digits, whose `2^latency` add up.
#[test]
fn depth_is_bounded() {
    let mut random = Random::new(13);
    for case in 0..40 {
        let (rows, columns) = (1 + random.below(8), 1 + random.below(8));
        let mut inputs = bytes(rows);
        for input in inputs.iter_mut().filter(|_| case % 2 == 0) {
            input.latency = random.below(6) as u32;
        }
        let problem = problem(inputs, columns, random_matrix(&mut random, rows, columns));
        let least = (0..columns).map(|column| {
            let weight = |row: usize| u64::from(naf_digits(problem.weight(row, column)));
            let total: u64 =
                (0..rows).map(|row| weight(row) << problem.inputs()[row].latency).sum();
            total.max(1).next_power_of_two().trailing_zeros()
        });
        let least = least.max().unwrap_or(0);
        for slack in 0..3 {
            let solution = check(&problem, &bounded(slack), &mut random);
            assert_eq!(solution.depth, depth(&problem, &solution));
            assert!(solution.depth <= least + slack, "{} {least} {slack}", solution.depth);
        }
    }
}

/// Digits of the non-adjacent form by its recurrence.
fn naf_digits(value: i64) -> u32 {
    match value {
        0 => 0,
        _ if value % 2 == 0 => naf_digits(value / 2),
        _ if value.rem_euclid(4) == 1 => 1 + naf_digits(value - 1),
        _ => 1 + naf_digits(value + 1),
    }
}

#[test]
fn solutions_are_deterministic() {
    let mut random = Random::new(17);
    let problem = problem(bytes(12), 9, random_matrix(&mut random, 12, 9));
    for settings in [FREE, bounded(1)] {
        assert_eq!(solve(&problem, &settings).unwrap(), solve(&problem, &settings).unwrap());
    }
}

/// A problem whose pairs are too many for memory is solved in blocks, in time.
#[test]
fn large_problems_are_solved_in_blocks() {
    let mut random = Random::new(19);
    let (rows, columns) = (1300, 3);
    let weights: Vec<i64> = (0..rows * columns).map(|_| random.below(255) as i64 - 127).collect();
    let mut inputs = bytes(rows);
    for (uneven, settings) in [(false, FREE), (false, bounded(0)), (true, bounded(1))] {
        inputs
            .iter_mut()
            .enumerate()
            .for_each(|(at, input)| input.latency = at as u32 % 3 * u32::from(uneven));
        let problem = problem(inputs.clone(), columns, weights.clone());
        assert!(blocks::split(&problem, 1 << 21).is_some());
        let solution = check(&problem, &settings, &mut random);
        let digits: u32 = weights.iter().map(|&w| naf_digits(w)).sum();
        assert!(solution.adders.len() < digits as usize * 2 / 3, "{}", solution.adders.len());
    }
}

/// Columns that follow from each other, deeper than levels are counted; and such without any relation.
#[test]
fn long_chains_of_columns_are_solved() {
    let (mut random, count) = (Random::new(31), 150);
    let square = |is_one: fn(usize, usize) -> bool| -> Vec<i64> {
        (0..count * count).map(|at| i64::from(is_one(at / count, at % count))).collect()
    };
    let triangle = problem(bytes(count), count, square(|row, column| row <= column));
    // Each column is the one before it and one input more.
    assert_eq!(check(&triangle, &FREE, &mut random).adders.len(), count - 1);
    for levels in [51, 1000] {
        let settings = Settings { effort: Effort::Default, ..bounded(levels) };
        check(&triangle, &settings, &mut random);
    }
    let identity = problem(bytes(count), count, square(|row, column| row == column));
    assert_eq!(check(&identity, &FREE, &mut random).adders.len(), 0);
}

/// Two sums in common among very many outputs: searching for them must not take many minutes.
#[test]
fn few_inner_sums_are_found_in_time() {
    let count = 2000;
    let columns = count + 2;
    let mut weights = vec![0; count * columns];
    for row in 0..count {
        weights[row * columns + row] = 1;
        weights[(row + 1) % count * columns + row] = 1;
    }
    for (column, rows) in [(count, [1, 5, 9]), (count + 1, [1, 5, 19])] {
        rows.iter().for_each(|row| weights[row * columns + column] = 1);
    }
    let problem = problem(bytes(count), columns, weights);
    let settings = Settings { effort: Effort::Default, ..FREE };
    let solution = within_seconds(120, || solve(&problem, &settings).unwrap());
    assert_eq!(solution.adders.len(), columns + 1);
}

/// The longest weights, in all shapes, with every effort bounded by levels and not.
#[test]
fn extreme_weights_are_solved() {
    let mut random = Random::new(37);
    let most = (1_i64 << 48) - 1;
    let patterns = [most, -most, 1 << 47, -(1 << 47), 0x5555_5555_5555, 0];
    for (rows, columns) in [(1, 1), (1, 9), (9, 1), (6, 6), (0, 4), (4, 0)] {
        for choice in 1..patterns.len() {
            let mut weight = |_| patterns[random.below(choice + 1)];
            let weights: Vec<i64> = (0..rows * columns).map(&mut weight).collect();
            let mut inputs = bytes(rows);
            // Inputs of any size that the sum of products leaves room for.
            inputs.iter_mut().for_each(|input| input.high = i64::MAX >> 2);
            let problem = problem(inputs, columns, weights);
            for settings in [FREE, bounded(0)] {
                assert!(solve(&problem, &settings).is_ok(), "{rows} x {columns}, {choice}");
            }
        }
    }
    let huge = vec![Input { low: i64::MIN, high: i64::MAX, latency: 0 }; 1024];
    assert!(Problem::new(huge, 1, vec![most; 1024]).is_none());
    assert!(Problem::new(bytes(1), 1, vec![1 << 48]).is_none());
}

/// Equal columns are one sum in blocks too.
#[test]
fn equal_columns_of_large_problems_are_one() {
    let problem = problem(bytes(2000), 40, vec![(1 << 20) - 1; 80_000]);
    let blocks = blocks::split(&problem, 1 << 21).unwrap().count();
    let adders = solve(&problem, &FREE).unwrap().adders.len();
    // All inputs; in each block the difference of two shifts of their sum, or a few more.
    assert!(adders <= 1999 + 4 * blocks, "{adders}, {blocks} blocks");
}

/// Every planted fault is noticed.
#[test]
fn faults_are_not_proved() {
    let problem = problem(bytes(2), 2, vec![3, 5, 7, -9]);
    let system = search::best_systems(&problem, Effort::Fast, None, &FREE).remove(0);
    let (adders, outputs) = trees::adders(&problem, &system, None, Effort::Default);
    assert!(prove::prove(&problem, adders.clone(), &outputs).is_ok());
    for at in 0..adders.len() {
        let mut wrong = adders.clone();
        wrong[at].shift += 1;
        assert!(prove::prove(&problem, wrong, &outputs).is_err(), "shift of adder {at}");
        let mut wrong = adders.clone();
        wrong[at].subtract = !wrong[at].subtract;
        assert!(prove::prove(&problem, wrong, &outputs).is_err(), "sign of adder {at}");
        let mut wrong = adders.clone();
        wrong[at].b = problem.inputs().len() + at;
        assert!(prove::prove(&problem, wrong, &outputs).is_err(), "adder {at} reads itself");
    }
    for at in 0..outputs.len() {
        let mut wrong = outputs.clone();
        wrong[at] = None;
        assert!(prove::prove(&problem, adders.clone(), &wrong).is_err(), "output {at} missing");
        let mut wrong = outputs.clone();
        wrong[at] = wrong[at].map(|term| term.scaled(0, true));
        assert!(prove::prove(&problem, adders.clone(), &wrong).is_err(), "output {at} negated");
        let mut wrong = outputs.clone();
        wrong[at] = wrong[at].map(|term| term.scaled(1, false));
        assert!(prove::prove(&problem, adders.clone(), &wrong).is_err(), "output {at} shifted");
    }
    assert!(prove::prove(&problem, adders, &outputs[..1]).is_err(), "an output too few");
}

/// A sum that is written in another way than an equal one is found by its form.
#[test]
fn equal_forms_become_one() {
    let term = |node: u32, shift: i16, negate: bool| system::Term { node, shift, negate };
    // 4a - b + c and 3a + (a - b) + c, which share no pair but are equal.
    let first = vec![term(0, 2, false), term(1, 0, true), term(2, 0, false)];
    let second = vec![term(5, 0, false), term(6, 0, false), term(2, 0, false)];
    let three = vec![term(0, 1, false), term(0, 0, false)];
    let difference = vec![term(0, 0, false), term(1, 0, true)];
    let sums = vec![first, second, three, difference];
    let outputs = [3, 4, 5, 6].map(|node| Some(term(node, 0, false))).to_vec();
    let system = system::System { inputs: 3, sums, outputs };
    let mut state = state::State::new(&system, &bytes(3), None);
    assert_eq!(state.cost(), 6);
    resub::resubstitute(&mut state, 0, &mut Random::new(1));
    assert_eq!(state.cost(), 4);
    let problem = problem(bytes(3), 4, vec![4, 4, 3, 1, -1, -1, 0, -1, 1, 1, 0, 0]);
    let (adders, outputs) = trees::adders(&problem, &state.system(), None, Effort::Default);
    assert!(prove::prove(&problem, adders, &outputs).is_ok());
}

/// A product and its transpose need adders that differ by the numbers of inputs and outputs.
#[test]
fn transposing_keeps_the_cost() {
    let mut random = Random::new(23);
    for _ in 0..20 {
        let (rows, columns) = (2 + random.below(7), 2 + random.below(7));
        let weights = (0..rows * columns).map(|_| 1 + random.below(300) as i64).collect();
        let problem = problem(bytes(rows), columns, weights);
        let (system, forms) = system::of_digits(&problem);
        // Columns that are multiples of each other share a sum, which is not counted here.
        if forms.len() < columns {
            continue;
        }
        let mut state = state::State::new(&system, problem.inputs(), None);
        greedy::extract_all(&mut state, greedy::Taste { sample: 1, noise: 50 }, &mut random);
        let straight = state.system();
        let turned = straight.transposed();
        assert_eq!(turned.cost() + rows, straight.cost() + columns);
        let other = problem.transposed();
        let (adders, outputs) = trees::adders(&other, &turned, None, Effort::Default);
        assert!(prove::prove(&other, adders, &outputs).is_ok());
        let (adders, outputs) =
            trees::adders(&problem, &turned.transposed(), None, Effort::Default);
        assert!(prove::prove(&problem, adders, &outputs).is_ok());
    }
}

/// Undoing returns to the very counts: the greedy pass that follows finds the same.
#[test]
fn changes_are_undone() {
    let mut random = Random::new(29);
    for limit in [None, Some(8)] {
        let problem = problem(bytes(6), 6, random_matrix(&mut random, 6, 6));
        let (system, _) = system::of_digits(&problem);
        let mut state = state::State::new(&system, problem.inputs(), limit);
        let taste = greedy::Taste { sample: 1, noise: 0 };
        greedy::extract_all(&mut state, taste, &mut Random::new(1));
        state.commit();
        let (cost, before) = (state.cost(), state.system());
        for round in 0..50 {
            let row = random.below(state.len());
            if state.is_inner(row) {
                let touched = state.dissolve(row);
                state.tidy(touched);
            }
            greedy::extract_all(&mut state, taste, &mut Random::new(round));
            state.undo(0);
            assert_eq!(state.cost(), cost);
            let sorted = |system: system::System| {
                let mut sums = system.sums;
                let key = |term: &system::Term| (term.node, term.shift, term.negate);
                sums.iter_mut().for_each(|terms| terms.sort_by_key(key));
                sums.retain(|terms| !terms.is_empty());
                sums
            };
            assert_eq!(sorted(state.system()), sorted(before.clone()), "round {round}");
        }
    }
}

/// A list of matrices of `tests/golden/dais/tiny`, and their fewest adders as far as they are known.
fn golden(name: &str) -> Vec<(Problem, Option<usize>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/dais/tiny");
    let tensor = std::fs::read(format!("{folder}/{name}.npy")).unwrap();
    let tensor = quincunx_tensor::npy::read_npy(tensor).unwrap();
    let (rows, columns) = (tensor.shape()[1], tensor.shape()[2]);
    let text = std::fs::read_to_string(format!("{folder}/optimal.json")).unwrap();
    let text = &text[text.find(&format!("\"{name}\"")).unwrap()..];
    let list = text.split(['[', ']']).nth(1).unwrap();
    let fewest = list.split(", ").map(|word| word.parse().ok());
    let weights = tensor.to_i64().unwrap();
    let problems = weights.chunks(rows * columns);
    let problems = problems.map(|weights| problem(bytes(rows), columns, weights.to_vec()));
    assert_eq!(problems.len(), fewest.clone().count());
    problems.zip(fewest).collect()
}

/// Several constants of one input: never below what an exhaustive search of others has found, nor
/// far above, on both sides of the transposition and within a bound on the levels.
#[test]
fn several_constants_need_about_the_fewest_adders() {
    for (name, most) in [("mcm5_8", 255), ("mcm8_8", 365), ("mcm5_10", 305)] {
        let (mut sum, mut optimal) = (0, 0);
        for (problem, fewest) in golden(name) {
            let solution = solve(&problem, &FREE).unwrap();
            let (adders, fewest) = (solution.adders.len(), fewest.unwrap());
            assert!(adders >= fewest, "{name}: {adders}, {fewest}");
            assert!(!solution.optimal || adders == fewest, "{name}: {adders}, {fewest}");
            sum += adders;
            optimal += usize::from(solution.optimal);
        }
        assert!(sum <= most, "{name}: {sum}");
        assert!(optimal >= 30, "{name}: {optimal}");
        for (straight, fewest) in golden(name).into_iter().step_by(8) {
            let turned = straight.transposed();
            let solution = solve(&turned, &FREE).unwrap();
            let fewest = fewest.unwrap() + turned.inputs().len() - 1;
            assert!(solution.adders.len() >= fewest);
            assert!(!solution.optimal || solution.adders.len() == fewest);
            let bounded = solve(&straight, &bounded(0)).unwrap();
            assert!(bounded.adders.len() + turned.inputs().len() > fewest);
        }
    }
}

#[test]
fn long_constants_need_about_the_fewest_adders() {
    for (name, most) in [("scm16", 5), ("scm19", 6)] {
        for (problem, fewest) in golden(name).into_iter().step_by(6) {
            let solution = solve(&problem, &FREE).unwrap();
            let adders = solution.adders.len();
            assert!(adders >= fewest.unwrap_or(4) && adders <= most, "{name}: {adders}");
            // Within three adders all can be tried.
            assert!(fewest.is_none_or(|fewest| solution.optimal && adders == fewest), "{name}");
        }
    }
}
