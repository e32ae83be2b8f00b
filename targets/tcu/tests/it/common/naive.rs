//! A second machine, written for clarity: memories are lists of vectors,
//! fixed point is exact fractions, every address is looked at when it is used.

use quincunx_tcu::TcuArch;
use quincunx_tcu::arch::DataType;
use quincunx_tcu::isa::{Inst, Register, SimdOp};
use std::collections::BTreeMap;

pub(crate) type Vector = Vec<i128>;
type Outcome<T = ()> = Result<T, String>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Naive {
    pub(crate) arch: TcuArch,
    /// Scalars by bank and physical address.
    pub(crate) dram: [BTreeMap<u64, i128>; 2],
    pub(crate) local: Vec<Vector>,
    pub(crate) acc: Vec<Vector>,
    pub(crate) registers: Vec<Vector>,
    pub(crate) weights: Vec<Vector>,
    pub(crate) array: Vector,
    pub(crate) tables: Vec<Vec<Vector>>,
    pub(crate) configuration: [u64; 16],
}

impl Naive {
    pub(crate) fn new(arch: &TcuArch) -> Naive {
        let zero = vec![0; arch.lanes()];
        let vectors = |depth: u64| vec![zero.clone(); depth as usize];
        let mut configuration = [0; 16];
        configuration[8] = 100;
        configuration[9] = 0xffff_ffff;
        let tables = arch.lookup_tables.map_or(0, |n| n + 1);
        Naive {
            dram: [BTreeMap::new(), BTreeMap::new()],
            local: vectors(arch.local_depth),
            acc: vectors(arch.accumulator_depth),
            registers: vectors(arch.simd_registers_depth.into()),
            weights: vectors(u64::from(arch.array_size) + 1),
            array: zero.clone(),
            tables: vec![vectors(arch.lookup_table_depth.unwrap_or(0).into()); tables as usize],
            configuration,
            arch: arch.clone(),
        }
    }

    fn dram_address(&self, bank: usize, address: u64) -> Outcome<u64> {
        let depth = [self.arch.dram0_depth, self.arch.dram1_depth][bank];
        if address >= depth {
            return Err(format!("DRAM{bank}({address})"));
        }
        let bytes = self.configuration[4 * bank] * 65536;
        let scalar = match self.arch.data_type.width() {
            8 => 1,
            16 => 2,
            _ => 4,
        };
        Ok(bytes / scalar + address * self.arch.lanes() as u64)
    }

    pub(crate) fn read_dram(&self, bank: usize, address: u64) -> Outcome<Vector> {
        let first = self.dram_address(bank, address)?;
        let scalars = (first..first + self.arch.lanes() as u64).map(|at| self.dram[bank].get(&at));
        Ok(scalars.map(|scalar| scalar.copied().unwrap_or(0)).collect())
    }

    pub(crate) fn write_dram(&mut self, bank: usize, address: u64, vector: &[i128]) -> Outcome {
        let first = self.dram_address(bank, address)?;
        for (at, &scalar) in (first..).zip(vector) {
            self.dram[bank].insert(at, scalar);
        }
        Ok(())
    }

    fn saturate(&self, value: i128) -> i128 {
        let high = (1 << (self.arch.data_type.width() - 1)) - 1;
        value.clamp(-high - 1, high)
    }

    fn float(&self) -> bool {
        self.arch.data_type == DataType::Float32
    }

    /// x * y + z, rounded to the nearest, of two to the even one.
    fn fused(&self, x: i128, y: i128, z: i128) -> i128 {
        if self.float() {
            return bits(real(x) * real(y) + real(z));
        }
        let unit = 1 << self.arch.data_type.binary_point().unwrap();
        let exact = x * y + z * unit;
        let (below, rest) = (exact.div_euclid(unit), exact.rem_euclid(unit));
        let up = 2 * rest > unit || (2 * rest == unit && below % 2 != 0);
        self.saturate(below + i128::from(up))
    }

    fn add(&self, x: i128, y: i128) -> i128 {
        if self.float() { bits(real(x) + real(y)) } else { self.saturate(x + y) }
    }

    fn subtract(&self, x: i128, y: i128) -> i128 {
        if self.float() { bits(real(x) - real(y)) } else { self.saturate(x - y) }
    }

    /// A number that orders as the scalars do.
    fn order(&self, x: i128) -> f64 {
        if self.float() { real(x).into() } else { x as f64 }
    }

    fn add_all(&self, x: &[i128], y: &[i128]) -> Vector {
        x.iter().zip(y).map(|(&x, &y)| self.add(x, y)).collect()
    }

    fn put_acc(&mut self, address: u64, vector: Vector, accumulate: bool) -> Outcome {
        let old = self.acc.get(address as usize).ok_or("accumulator")?;
        let new = if accumulate { self.add_all(old, &vector) } else { vector };
        self.acc[address as usize] = new;
        Ok(())
    }

    fn get_local(&self, address: u64) -> Outcome<Vector> {
        self.local.get(address as usize).cloned().ok_or_else(|| format!("Local({address})"))
    }

    fn product(&mut self, x: &[i128], acc: u64, accumulate: bool) -> Outcome {
        let mut sums = self.weights[0].clone();
        for (lane, &x) in x.iter().enumerate() {
            for (column, sum) in sums.iter_mut().enumerate() {
                *sum = self.fused(x, self.weights[lane + 1][column], *sum);
            }
        }
        self.array.clone_from(&sums);
        self.put_acc(acc, sums, accumulate)
    }

    fn push(&mut self, row: Vector) {
        self.weights.pop();
        self.weights.insert(0, row);
    }

    fn source(&self, number: u8, input: &[i128]) -> Outcome<Vector> {
        match number {
            0 => Ok(input.to_vec()),
            _ => self.registers.get(usize::from(number) - 1).cloned().ok_or("register".into()),
        }
    }

    fn one(&self) -> i128 {
        match self.arch.data_type.binary_point() {
            Some(point) => 1 << point,
            None => bits(1.0),
        }
    }

    fn scalar(&self, op: SimdOp, left: i128, right: i128) -> i128 {
        let truth = |value: bool| if value { self.one() } else { 0 };
        let (l, r) = (self.order(left), self.order(right));
        match op {
            SimdOp::Zero => 0,
            SimdOp::Move => left,
            SimdOp::Not => truth(l == 0.0),
            SimdOp::And => truth(l != 0.0 && r != 0.0),
            SimdOp::Or => truth(l != 0.0 || r != 0.0),
            SimdOp::Increment => self.add(left, self.one()),
            SimdOp::Decrement => self.subtract(left, self.one()),
            SimdOp::Add => self.add(left, right),
            SimdOp::Subtract => self.subtract(left, right),
            SimdOp::Multiply if self.float() => bits(real(left) * real(right)),
            SimdOp::Multiply => self.fused(left, right, 0),
            SimdOp::Abs if self.float() => bits(real(left).abs()),
            SimdOp::Abs if self.saturate(-left) != -left => left,
            SimdOp::Abs => left.abs(),
            SimdOp::GreaterThan => truth(l > r),
            SimdOp::GreaterThanEqual => truth(l >= r),
            SimdOp::Min => {
                if r < l {
                    right
                } else {
                    left
                }
            }
            SimdOp::Max => {
                if r > l {
                    right
                } else {
                    left
                }
            }
            SimdOp::NoOp | SimdOp::Lookup => unreachable!("not lane by lane"),
        }
    }

    /// The entry of the closest key: sorted by distance, then by key, then by place.
    fn entry(&self, value: i128, lane: usize) -> usize {
        let keys = self.tables[0].iter().map(|row| self.order(row[lane]));
        let value = self.order(value);
        let mut keys: Vec<(f64, f64, usize)> =
            keys.enumerate().map(|(entry, key)| ((value - key).abs(), key, entry)).collect();
        keys.sort_by(|a, b| a.partial_cmp(b).unwrap());
        keys[0].2
    }

    fn simd(&mut self, inst: &Inst) -> Outcome {
        let &Inst::Simd { access, write, read, destination, compute } = inst else { return Ok(()) };
        let lanes = self.arch.lanes();
        let input = match access.reads() {
            true => self.acc.get(read as usize).cloned().ok_or("accumulator")?,
            false => vec![0; lanes],
        };
        let mut further = Vec::new();
        let result: Vector = match compute.op {
            SimdOp::NoOp if access.reads() => input,
            SimdOp::NoOp => self.array.clone(),
            SimdOp::Lookup => {
                let source = self.source(compute.left, &input)?;
                let entries: Vec<usize> =
                    (0..lanes).map(|lane| self.entry(source[lane], lane)).collect();
                let row = |table: &Vec<Vector>| -> Vector {
                    (0..lanes).map(|lane| table[entries[lane]][lane]).collect()
                };
                further = self.tables[1..].iter().map(row).collect();
                let keys = row(&self.tables[0]);
                source.iter().zip(keys).map(|(&x, key)| self.subtract(x, key)).collect()
            }
            op => {
                let arity = op.arity();
                let left = self.source(if arity > 0 { compute.left } else { 0 }, &input)?;
                let right = self.source(if arity > 1 { compute.right } else { 0 }, &input)?;
                left.iter().zip(&right).map(|(&l, &r)| self.scalar(op, l, r)).collect()
            }
        };
        let d = usize::from(destination);
        for (index, value) in further.into_iter().enumerate() {
            *self.registers.get_mut(d + index).ok_or("register")? = value;
        }
        if d > 0 && compute.op != SimdOp::NoOp {
            self.registers.get_mut(d - 1).ok_or("register")?.clone_from(&result);
        }
        match access.writes() {
            true => self.put_acc(write.into(), result, access.accumulates()),
            false => Ok(()),
        }
    }

    fn transfer(&mut self, inst: &Inst) -> Outcome {
        let transfer = inst.transfer().ok_or("no move")?;
        let bank = match inst {
            Inst::Dram0ToLocal { .. } | Inst::LocalToDram0 { .. } => Some(0),
            Inst::Dram1ToLocal { .. } | Inst::LocalToDram1 { .. } => Some(1),
            _ => None,
        };
        for i in 0..transfer.local.count {
            let local = transfer.local.base + i * 2_u64.pow(transfer.local.stride);
            let other = transfer.other.base + i * 2_u64.pow(transfer.other.stride);
            if transfer.to_local {
                let vector = match bank {
                    Some(bank) => self.read_dram(bank, other)?,
                    None => self.acc.get(other as usize).cloned().ok_or("accumulator")?,
                };
                *self.local.get_mut(local as usize).ok_or("local")? = vector;
                continue;
            }
            let vector = self.get_local(local)?;
            match bank {
                Some(bank) => self.write_dram(bank, other, &vector)?,
                None => self.put_acc(other, vector, transfer.accumulate)?,
            }
        }
        Ok(())
    }

    /// Executes an instruction; the error says what is not there.
    pub(crate) fn step(&mut self, inst: &Inst) -> Outcome {
        let zero = vec![0; self.arch.lanes()];
        match *inst {
            Inst::NoOp { .. } => {}
            Inst::MatMul { accumulate, local, local_stride, acc, acc_stride, size } => {
                for i in 0..=u64::from(size) {
                    let x = self.get_local(u64::from(local) + i * 2_u64.pow(local_stride))?;
                    self.product(&x, acc + i * 2_u64.pow(acc_stride), accumulate)?;
                }
            }
            Inst::MatMulZeroes { accumulate, acc, acc_stride, size } => {
                for i in 0..=u64::from(size) {
                    self.product(&zero, acc + i * 2_u64.pow(acc_stride), accumulate)?;
                }
            }
            Inst::LoadWeights { local, stride, size } => {
                for i in (0..=u64::from(size)).rev() {
                    let row = self.get_local(u64::from(local) + i * 2_u64.pow(stride))?;
                    self.push(row);
                }
            }
            Inst::LoadWeightsZeroes { size } => (0..=size).for_each(|_| self.push(zero.clone())),
            Inst::Simd { .. } => self.simd(inst)?,
            Inst::LoadLut { local, stride, table } => {
                for i in 0..self.arch.lookup_table_depth.ok_or("tables")? {
                    let row =
                        self.get_local(u64::from(local) + u64::from(i) * 2_u64.pow(stride))?;
                    self.tables.get_mut(table as usize).ok_or("table")?[i as usize] = row;
                }
            }
            Inst::Configure { register, value } => {
                let bits =
                    [32, 4, 0, 0, 32, 4, 0, 0, 16, 32, 32, 16, 0, 0, 0, 0][register as usize];
                self.configuration[register as usize] = value % (1 << bits);
            }
            _ => self.transfer(inst)?,
        }
        let counter = &mut self.configuration[10];
        if !matches!(inst, Inst::Configure { register: Register::ProgramCounter, .. }) {
            *counter = (*counter + 1) % (1 << 32);
        }
        Ok(())
    }
}

fn real(scalar: i128) -> f32 {
    f32::from_bits(scalar as i32 as u32)
}

fn bits(real: f32) -> i128 {
    i128::from(real.to_bits() as i32)
}
