//! What the compilers begin with: the function behind ports, with a result in every clock cycle.
//! Facts: `hls-types` (`docs/bibliography.md`).

use super::{Design, Flavour, Numbers};

/// What the file with the top is called; SYCL kernels are part of the program that starts them.
pub(super) fn file_name(design: &Design<'_>) -> String {
    match design.flavour {
        Flavour::OneApi => format!("{}_top.hpp", design.name),
        Flavour::Vitis | Flavour::Catapult => format!("{}_top.cpp", design.name),
    }
}

/// The top `NAME_top`.
pub(super) fn print(design: &Design<'_>) -> String {
    match design.flavour {
        Flavour::Vitis => vitis(design),
        Flavour::OneApi => oneapi(design),
        Flavour::Catapult => catapult(design),
    }
}

/// Registers keep their values from call to call.
fn state(design: &Design<'_>, storage: &str) -> String {
    match design.has_state() {
        true => format!("  {storage}{}_state state;\n", design.name),
        false => String::new(),
    }
}

fn vitis(design: &Design<'_>) -> String {
    let (name, argument) = (design.name, design.state_argument());
    let [inputs, outputs] = [&design.input, &design.output].map(Numbers::count);
    let state = state(design, "static ");
    format!(
        "#include \"{name}.h\"

// All numbers enter and leave at once, a result every clock cycle.
void {name}_top(const {name}_in_t model_inp[{inputs}], {name}_out_t model_out[{outputs}]) {{
#pragma HLS INTERFACE mode=ap_ctrl_none port=return
#pragma HLS INTERFACE mode=ap_none port=model_inp
#pragma HLS INTERFACE mode=ap_none port=model_out
#pragma HLS ARRAY_PARTITION variable=model_inp type=complete
#pragma HLS ARRAY_PARTITION variable=model_out type=complete
#pragma HLS PIPELINE II=1
{state}  {name}_logic(model_inp, model_out{argument});
}}
"
    )
}

fn catapult(design: &Design<'_>) -> String {
    let (name, argument) = (design.name, design.state_argument());
    let [inputs, outputs] = [&design.input, &design.output].map(Numbers::count);
    let state = state(design, "static ");
    format!(
        "#include \"{name}.h\"
#if defined(__has_include)
#if __has_include(<mc_scverify.h>)
#include <mc_scverify.h>
#endif
#endif
#ifndef CCS_BLOCK
#define CCS_BLOCK(name) name
#endif

// All numbers enter and leave at once, a result every clock cycle.
#pragma hls_design top
#pragma hls_pipeline_init_interval 1
void CCS_BLOCK({name}_top)(const {name}_in_t model_inp[{inputs}], {name}_out_t model_out[{outputs}]) {{
{state}  {name}_logic(model_inp, model_out{argument});
}}
"
    )
}

fn oneapi(design: &Design<'_>) -> String {
    let (name, argument) = (design.name, design.state_argument());
    let [inputs, outputs] = [&design.input, &design.output].map(Numbers::count);
    let state = state(design, "      ");
    let guard = format!("{}_TOP_HPP", name.to_ascii_uppercase());
    format!(
        "#ifndef {guard}
#define {guard}
#include <cstddef>
#include <vector>

#include <sycl/sycl.hpp>
#include <sycl/ext/intel/fpga_extensions.hpp>

#include \"{name}.h\"

// The numbers of one call, which enter and leave together.
struct {name}_in {{
  {name}_in_t numbers[{inputs}];
}};
struct {name}_out {{
  {name}_out_t numbers[{outputs}];
}};

class {name}_kernel;

// Runs the kernel on all samples, one after the other, a new one every clock cycle.
inline void {name}_top(sycl::queue &queue, const std::vector<{name}_in> &inputs,
                       std::vector<{name}_out> &outputs) {{
  const std::size_t count = inputs.size();
  sycl::buffer<{name}_in, 1> from(inputs);
  sycl::buffer<{name}_out, 1> to(outputs);
  queue.submit([&](sycl::handler &handler) {{
    sycl::accessor model_inp(from, handler, sycl::read_only);
    sycl::accessor model_out(to, handler, sycl::write_only, sycl::no_init);
    handler.single_task<{name}_kernel>([=]() {{
{state}      [[intel::initiation_interval(1)]]
      for (std::size_t sample = 0; sample < count; ++sample) {{
        const {name}_in in = model_inp[sample];
        {name}_out out;
        {name}_logic(in.numbers, out.numbers{argument});
        model_out[sample] = out;
      }}
    }});
  }});
  // The buffers wait for the kernel and copy its results back.
}}

#endif
"
    )
}
