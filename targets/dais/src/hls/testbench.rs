//! Testbenches that check themselves: they read the vectors from two files, a line for each, and
//! say PASS or FAIL in the last line.

use super::{Design, Flavour, Numbers};
use quincunx_num::{Dyadic, Int, power_of_two, shift_floor};
use std::fmt::Write;

/// Mismatches that are shown.
const SHOWN: u32 = 10;

/// The bits of all numbers of a port as hexadecimal digits: a line for every vector.
pub(super) fn vectors(numbers: &Numbers, flavour: Flavour, rows: &[Vec<Dyadic>]) -> String {
    let fixed = flavour.kept(numbers.fixed);
    let (digits, mask) = (fixed.width.div_ceil(4) as usize, power_of_two(fixed.width) - Int::ONE);
    let mut out = String::new();
    for row in rows {
        // An array without numbers has one element all the same.
        let none = [Dyadic::ZERO];
        let row = if row.is_empty() { &none[..] } else { &row[..] };
        for (index, number) in row.iter().enumerate() {
            let steps = i64::from(number.exponent()) + numbers.fixed.fraction();
            let bits = shift_floor(number.mantissa(), steps) & &mask;
            let gap = if index > 0 { " " } else { "" };
            let _ = write!(out, "{gap}{:0>digits$}", bits.in_radix(16).to_string());
        }
        out.push('\n');
    }
    out
}

/// The testbench `NAME_tb.cpp`, which compares what is computed, before the driver scales it.
pub(super) fn print(design: &Design<'_>, vectors: usize) -> String {
    let name = design.name;
    let (before, main) = match design.flavour {
        Flavour::Vitis => (declaration(design), on_function(design, &VITIS)),
        Flavour::Catapult => {
            (CATAPULT_MACROS.to_owned() + &declaration(design), on_function(design, &CATAPULT))
        }
        Flavour::OneApi => (String::new(), on_queue(design)),
    };
    let header = match design.flavour {
        Flavour::OneApi => format!("{name}_top.hpp"),
        Flavour::Vitis | Flavour::Catapult => format!("{name}.h"),
    };
    let [inputs, outputs] = [&design.input, &design.output].map(Numbers::count);
    let widths = [&design.input, &design.output].map(|n| design.flavour.kept(n.fixed).width);
    format!(
        "// Reads {name}_in.hex and {name}_out.hex from the working folder.
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include \"{header}\"

{before}namespace {name}_tb {{

enum {{ vectors = {vectors}, inputs = {inputs}, outputs = {outputs}, shown = {SHOWN} }};

{READ}
inline bool read_inputs(std::istream &file, {name}_in_t *numbers) {{
  return read(file, numbers, inputs, {});
}}

inline bool read_outputs(std::istream &file, {name}_out_t *numbers) {{
  return read(file, numbers, outputs, {});
}}

// True if all numbers are as expected; says so if not, where wanted.
inline bool check(int vector, bool say, const {name}_out_t *found, const {name}_out_t *expected) {{
  for (int i = 0; i < outputs; ++i) {{
    if (found[i] == expected[i]) continue;
    if (say) {{
      std::cout << \"vector \" << vector << \", output \" << i << \": \" << found[i].to_double()
                << \", expected \" << expected[i].to_double() << std::endl;
    }}
    return false;
  }}
  return true;
}}

inline int verdict(int failures) {{
  if (failures == 0) {{
    std::cout << \"PASS {name}: {vectors} vectors\" << std::endl;
    return 0;
  }}
  std::cout << \"FAIL {name}: \" << failures << \" of {vectors} vectors\" << std::endl;
  return 1;
}}

}}  // namespace {name}_tb

{main}",
        widths[0], widths[1]
    )
}

/// Reads numbers of a type, whose bits are hexadecimal digits.
const READ: &str = "\
// Reads the bits of all numbers of a vector; false if the file has no more.
template <class T>
bool read(std::istream &file, T *numbers, int count, int width) {
  for (int i = 0; i < count; ++i) {
    std::string digits;
    if (!(file >> digits)) return false;
    numbers[i] = 0;
    for (int bit = 0; bit < width; ++bit) {
      const char digit = digits[digits.size() - 1 - bit / 4];
      const int value = digit <= '9' ? digit - '0' : digit - 'a' + 10;
      numbers[i][bit] = (value >> (bit % 4) & 1) != 0;
    }
  }
  return true;
}
";

/// What surrounds the call of the top.
struct Call {
    main: &'static str,
    before: &'static str,
    after: &'static str,
    exit: [&'static str; 2],
}

const VITIS: Call = Call { main: "int main()", before: "", after: "", exit: ["return ", ""] };

const CATAPULT: Call = Call {
    main: "CCS_MAIN(int, char **)",
    before: "CCS_DESIGN(",
    after: ")",
    exit: ["CCS_RETURN(", ")"],
};

/// Catapult replaces these when it runs the testbench on the generated logic.
const CATAPULT_MACROS: &str = "\
#if defined(__has_include)
#if __has_include(<mc_scverify.h>)
#include <mc_scverify.h>
#endif
#endif
#ifndef CCS_MAIN
#define CCS_MAIN(count, arguments) int main(count, arguments)
#define CCS_DESIGN(name) name
#define CCS_RETURN(value) return value
#endif

";

fn declaration(design: &Design<'_>) -> String {
    let name = design.name;
    let [inputs, outputs] = [&design.input, &design.output].map(Numbers::count);
    format!(
        "void {name}_top(const {name}_in_t model_inp[{inputs}], {name}_out_t model_out[{outputs}]);\n\n"
    )
}

fn on_function(design: &Design<'_>, call: &Call) -> String {
    let (name, Call { main, before, after, exit: [exit, end] }) = (design.name, call);
    format!(
        "{main} {{
  using namespace {name}_tb;
  std::ifstream in_file(\"{name}_in.hex\"), out_file(\"{name}_out.hex\");
  {name}_in_t in[inputs];
  {name}_out_t out[outputs], expected[outputs];
  int failures = 0;
  for (int vector = 0; vector < vectors; ++vector) {{
    if (!read_inputs(in_file, in) || !read_outputs(out_file, expected)) {{
      std::cout << \"a file of vectors is missing or too short\" << std::endl;
      failures += vectors - vector;
      break;
    }}
    {before}{name}_top{after}(in, out);
    failures += !check(vector, failures < shown, out, expected);
  }}
  {exit}verdict(failures){end};
}}
"
    )
}

fn on_queue(design: &Design<'_>) -> String {
    let name = design.name;
    format!(
        "int main() {{
  using namespace {name}_tb;
#if defined(FPGA_SIMULATOR)
  sycl::queue queue(sycl::ext::intel::fpga_simulator_selector_v);
#elif defined(FPGA_HARDWARE)
  sycl::queue queue(sycl::ext::intel::fpga_selector_v);
#else
  sycl::queue queue(sycl::ext::intel::fpga_emulator_selector_v);
#endif
  std::ifstream in_file(\"{name}_in.hex\"), out_file(\"{name}_out.hex\");
  std::vector<{name}_in> in(vectors);
  std::vector<{name}_out> out(vectors), expected(vectors);
  for (int vector = 0; vector < vectors; ++vector) {{
    if (!read_inputs(in_file, in[vector].numbers) ||
        !read_outputs(out_file, expected[vector].numbers)) {{
      std::cout << \"a file of vectors is missing or too short\" << std::endl;
      return verdict(vectors - vector);
    }}
  }}
  {name}_top(queue, in, out);
  int failures = 0;
  for (int vector = 0; vector < vectors; ++vector) {{
    const bool say = failures < shown;
    failures += !check(vector, say, out[vector].numbers, expected[vector].numbers);
  }}
  return verdict(failures);
}}
"
    )
}
