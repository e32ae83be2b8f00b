//! The header with the function, and the one with what every function uses.

use super::fixed::literal;
use super::lower::Rom;
use super::{Design, Flavour, Numbers};
use std::fmt::Write;

/// The file that all functions for a compiler share.
pub(super) const SUPPORT: &str = "dais_fixed.h";

/// Values of a table in a line.
const PER_LINE: usize = 16;

/// What every function uses: the library of the compiler, moving the point, low bits.
pub(super) fn support(flavour: Flavour) -> String {
    let include = match flavour {
        Flavour::Vitis => "#include <ap_fixed.h>",
        Flavour::OneApi => "#include <sycl/ext/intel/ac_types/ac_fixed.hpp>",
        Flavour::Catapult => "#include <ac_fixed.h>",
    };
    let helpers = match flavour {
        Flavour::Vitis => FOR_AP,
        Flavour::OneApi | Flavour::Catapult => FOR_AC,
    };
    format!(
        "// Written by Quincunx: what its functions on fixed-point numbers use.
#ifndef DAIS_FIXED_H
#define DAIS_FIXED_H
{include}

namespace dais {{

{helpers}
}}  // namespace dais

#endif
"
    )
}

/// On types of AMD.
const FOR_AP: &str = "\
// The number times 2^N: the point moves, the bits stay.
template <int N, int W, int I>
inline ap_fixed<W, I + N> shl(const ap_fixed<W, I> &x) {
#pragma HLS INLINE
  ap_fixed<W, I + N> y;
  y.range() = x.range();
  return y;
}

template <int N, int W, int I>
inline ap_ufixed<W, I + N> shl(const ap_ufixed<W, I> &x) {
#pragma HLS INLINE
  ap_ufixed<W, I + N> y;
  y.range() = x.range();
  return y;
}

// The lowest N bits as a number from 0 on.
template <int N, class T>
inline unsigned low_bits(const T &x) {
#pragma HLS INLINE
  return x.range(N - 1, 0).to_uint();
}
";

/// On types of Siemens, which Intel's follow.
const FOR_AC: &str = "\
// The number times 2^N: the point moves, the bits stay.
template <int N, int W, int I, bool S>
inline ac_fixed<W, I + N, S> shl(const ac_fixed<W, I, S> &x) {
  ac_fixed<W, I + N, S> y;
  y.set_slc(0, x.template slc<W>(0));
  return y;
}

// The lowest N bits as a number from 0 on.
template <int N, int W, int I, bool S>
inline unsigned low_bits(const ac_fixed<W, I, S> &x) {
  return ac_int<N, false>(x.template slc<N>(0)).to_uint();
}
";

/// The header `NAME.h`.
pub(super) fn print(design: &Design<'_>) -> String {
    let Design { name, flavour, lowered, .. } = design;
    let guard = format!("{}_H", name.to_ascii_uppercase());
    let mut out = about(design);
    let _ = writeln!(out, "#ifndef {guard}\n#define {guard}\n#include \"{SUPPORT}\"\n");
    for (end, numbers) in [("in", &design.input), ("out", &design.output)] {
        let declared = flavour.type_name(numbers.fixed);
        let _ = writeln!(out, "typedef {declared} {name}_{end}_t;");
    }
    out.push('\n');
    print_state(design, &mut out);
    let [inputs, outputs] = [&design.input, &design.output].map(Numbers::count);
    let state = if design.has_state() { format!(", {name}_state &state") } else { String::new() };
    let _ = writeln!(
        out,
        "inline void {name}_logic(const {name}_in_t in[{inputs}], {name}_out_t out[{outputs}]{state}) {{"
    );
    if *flavour == Flavour::Vitis {
        out.push_str("#pragma HLS INLINE\n");
    }
    out.push_str("  using dais::low_bits;\n  using dais::shl;\n");
    for (number, rom) in lowered.tables.iter().enumerate() {
        print_table(number, rom, *flavour, &mut out);
    }
    out.push_str(&lowered.body);
    out.push_str("}\n\n#endif\n");
    out
}

/// What the file is, as comments.
fn about(design: &Design<'_>) -> String {
    let mut out = String::new();
    let Design { name, flavour, .. } = design;
    let mut line = |text: String| {
        let _ = writeln!(out, "// {text}");
    };
    line(format!("{name}: written by Quincunx from a dais program, for {}.", flavour.compiler()));
    line(format!(
        "in: {} numbers, out: {} numbers.",
        design.input.kifs.len(),
        design.output.kifs.len()
    ));
    for port in &design.interface.inputs {
        if let Some(quantiser) = port.grid.quantiser() {
            // A name may hold anything.
            let name = port.name.escape_default();
            line(format!("Input {name}: outside of this file numbers are moved onto {quantiser}."));
        }
    }
    design.scalings.iter().cloned().for_each(&mut line);
    out
}

/// Registers with what they start with.
fn print_state(design: &Design<'_>, out: &mut String) {
    if !design.has_state() {
        return;
    }
    let Design { name, flavour, lowered, .. } = design;
    let _ = writeln!(out, "// What a call leaves for the next one.\nstruct {name}_state {{");
    for (index, (fixed, _)) in lowered.registers.iter().enumerate() {
        let _ = writeln!(out, "  {} r{index};", flavour.type_name(*fixed));
    }
    let _ = writeln!(out, "  {name}_state() {{\n    using dais::shl;");
    for (index, (fixed, start)) in lowered.registers.iter().enumerate() {
        let _ = writeln!(out, "    r{index} = {};", flavour.converted(*fixed, &start.text));
    }
    out.push_str("  }\n};\n\n");
}

fn print_table(number: usize, rom: &Rom, flavour: Flavour, out: &mut String) {
    let (declared, count) = (flavour.type_name(rom.fixed), rom.entries.len());
    let _ = writeln!(out, "  static const {declared} table{number}[{count}] = {{");
    for entries in rom.entries.chunks(PER_LINE) {
        let entries: Vec<String> = entries.iter().map(|&entry| literal(entry.into())).collect();
        let _ = writeln!(out, "    {},", entries.join(", "));
    }
    out.push_str("  };\n");
}
