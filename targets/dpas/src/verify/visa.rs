//! Rules of virtual kernels.

use super::Allow;
use super::rules::{Facts, alignment, fused, legal_accumulators, overlap, types};
use crate::arch::DpasArch;
use crate::isa::visa::{Var, Virtual};
use crate::precision::Acc;
use crate::program::{Element, Kernel, Variable};
use crate::simulate::Operation;
use crate::simulate::lower::{Memory, acc_of, visa_operation};
use quincunx_diag::Diagnostic;

pub(super) fn verify(kernel: &Kernel, arch: &DpasArch, allow: &Allow) -> Vec<Diagnostic> {
    let memory = match Memory::new(kernel, arch.platform.grf_bytes()) {
        Ok(memory) => memory,
        Err(problem) => return vec![problem],
    };
    let mut found = aliases(kernel);
    for (index, item) in kernel.instructions.iter().enumerate() {
        let problems = instruction(&item.inst.parts(), kernel, &memory, arch, allow);
        found.extend(problems.into_iter().map(|problem| match item.span {
            Some(span) => problem.label(span, ""),
            None => problem.with_note(format!("instruction {index}")),
        }));
    }
    found
}

/// An alias lies within the variable that it shares.
fn aliases(kernel: &Kernel) -> Vec<Diagnostic> {
    let outside = |variable: &&Variable| {
        variable.alias.is_some_and(|(target, offset)| {
            let room = kernel.variable(target).map_or(0, Variable::bytes);
            variable.bytes().saturating_add(offset.into()) > room
        })
    };
    let report = |variable: &Variable| {
        let message = format!("alias {} leaves the variable that it shares", variable.name);
        Diagnostic::invalid("Q6067", message).help("declare fewer elements or a smaller offset")
    };
    kernel.variables.iter().filter(outside).map(report).collect()
}

fn instruction(
    inst: &Virtual,
    kernel: &Kernel,
    memory: &Memory,
    arch: &DpasArch,
    allow: &Allow,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let declared = |name: &str, variable: Var, found: &mut Vec<Diagnostic>| {
        let index = variable.index().unwrap_or(u32::MAX);
        let declared = kernel.variable(index);
        if declared.is_none() {
            let message = format!("{name} is variable {index}, which is not declared");
            found.push(Diagnostic::invalid("Q6060", message).help("add a `.decl` for it"));
        }
        declared
    };
    if inst.dst.0 == Var::NULL {
        let message = "dst is %null";
        found.push(Diagnostic::invalid("Q6053", message).help("only src0 may be %null"));
        return found;
    }
    let dst = declared("dst", inst.dst.0, &mut found);
    let is_null = inst.src0.0 == Var::NULL;
    let src0 = if is_null { None } else { declared("src0", inst.src0.0, &mut found) };
    let src1 = declared("src1", inst.src1.0, &mut found);
    let src2 = declared("src2", inst.src2.0, &mut found);
    let (Some(dst), Some(src1), Some(src2)) = (dst, src1, src2) else { return found };
    if src0.is_none() && !is_null {
        return found;
    }
    let accs = accumulators(inst, dst, src0, arch, allow, &mut found);
    factors(inst, src1, src2, &mut found);
    let Some((dst_acc, src0_acc)) = accs else { return found };
    let facts = Facts {
        platform: arch.platform,
        fused: inst.fused,
        scaled: false,
        weights: inst.w,
        activations: inst.a,
        dst: dst_acc,
        src0: src0_acc,
        lanes: inst.exec.lanes(),
        offset: inst.exec.offset(),
        depth: inst.depth,
        native: false,
    };
    found.extend(types(&facts, allow));
    match visa_operation(inst, kernel, memory, arch, allow.stride) {
        Ok(operation) => places(inst, &operation, kernel, memory, arch, &mut found),
        Err(problem) if !found.iter().any(Diagnostic::is_error) => found.push(problem),
        Err(_) => {}
    }
    found
}

/// The types of dst and src0; `None` when one is not an accumulator at all.
fn accumulators(
    inst: &Virtual,
    dst: &Variable,
    src0: Option<&Variable>,
    arch: &DpasArch,
    allow: &Allow,
    found: &mut Vec<Diagnostic>,
) -> Option<(Acc, Option<Acc>)> {
    let second = arch.platform.is_second();
    let mut of = |name: &str, variable: &Variable| {
        let acc = acc_of(variable.element, inst, second)
            .filter(|acc| !acc.is_half() || second)
            .filter(|&acc| acc != Acc::Df || allow.df);
        if acc.is_none() {
            let platform = arch.platform.name();
            let message = format!("{name} has type {} on {platform}", variable.element.name());
            let legal: Vec<&str> =
                legal_accumulators(arch.platform, inst.a).iter().map(|acc| acc.name()).collect();
            let legal = format!("legal with {} are {}", inst.a.name(), legal.join(", "));
            let (code, help) = match variable.element {
                Element::Df => ("Q6048", format!("--df allows it (ours); {legal}")),
                _ => ("Q6051", legal),
            };
            found.push(Diagnostic::invalid(code, message).help(help));
        }
        acc
    };
    let dst = of("dst", dst);
    let src0 = src0.map(|variable| of("src0", variable));
    match src0 {
        Some(None) => None,
        Some(Some(src0)) => Some((dst?, Some(src0))),
        None => Some((dst?, None)),
    }
}

fn factors(inst: &Virtual, src1: &Variable, src2: &Variable, found: &mut Vec<Diagnostic>) {
    let double = inst.a == crate::precision::Precision::Df;
    let legal = |element: Element| match element {
        Element::D | Element::Ud => true,
        Element::Df => double,
        _ => false,
    };
    for (name, variable) in [("src1", src1), ("src2", src2)] {
        if !legal(variable.element) {
            let message = format!("{name} has type {}", variable.element.name());
            let help = "packed elements lie in variables of type d or ud";
            found.push(Diagnostic::invalid("Q6052", message).help(help));
        }
    }
}

/// Alignment, size and overlap.
fn places(
    inst: &Virtual,
    operation: &Operation,
    kernel: &Kernel,
    memory: &Memory,
    arch: &DpasArch,
    found: &mut Vec<Diagnostic>,
) {
    let variable = |name: &str| match name {
        "dst" => inst.dst.0,
        "src0" => inst.src0.0,
        "src1" => inst.src1.0,
        _ => inst.src2.0,
    };
    let list = operation.footprints();
    // The base of a variable that is not an alias gets the alignment that its operands need.
    let base = |name: &str| {
        let index = variable(name).index()?;
        let at = index.checked_sub(crate::program::FIRST_VARIABLE)? as usize;
        memory.offsets.get(*memory.roots.get(at)?).copied()
    };
    let start = |(name, range): &(&'static str, std::ops::Range<usize>)| {
        (*name, range.start.saturating_sub(base(name).unwrap_or(0)))
    };
    let starts: Vec<_> = list.iter().map(start).collect();
    found.extend(alignment(&operation.shape, arch, &starts));
    let mut inside = true;
    for (name, range) in &list {
        let Some(index) = variable(name).index() else { continue };
        let Some(declared) = kernel.variable(index) else { continue };
        let at = index.saturating_sub(crate::program::FIRST_VARIABLE) as usize;
        let needed = range.end.saturating_sub(memory.offsets[at]);
        if needed as u64 > declared.bytes() {
            inside = false;
            let message = format!(
                "{name} needs {needed} bytes of {}, which has {}",
                declared.name,
                declared.bytes()
            );
            let elements = needed.div_ceil(declared.element.bytes() as usize);
            let help = format!("declare num_elts={elements}");
            found.push(Diagnostic::invalid("Q6058", message).help(help));
        }
    }
    if inside {
        // What leaves its variable meets others only by where they happen to lie here.
        found.extend(overlap(operation));
    }
    found.extend(fused(operation));
}
