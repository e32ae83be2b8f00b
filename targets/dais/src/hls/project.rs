//! Scripts for the compilers, and what the files are as JSON. Facts: `hls-types`
//! (`docs/bibliography.md`).

use super::{Design, Flavour, Numbers, header, top};
use crate::program::Pipeline;
use crate::rtl::{Settings, driver};
use quincunx_contract::{File, Port};
use quincunx_num::Kif;
use quincunx_tensor::element_count;
use serde_json::{Value, json};

/// Script and description.
pub(super) fn files(
    design: &Design<'_>,
    pipeline: &Pipeline,
    settings: &Settings,
    vectors: usize,
) -> Vec<File> {
    let name = design.name;
    let script = match design.flavour {
        Flavour::Vitis => File::new(format!("{name}_vitis.tcl"), vitis(name, settings)),
        Flavour::OneApi => File::new("CMakeLists.txt", oneapi(name, settings)),
        Flavour::Catapult => File::new(format!("{name}_catapult.tcl"), catapult(name, settings)),
    };
    let about = format!("{:#}\n", description(design, pipeline, settings, vectors));
    vec![script, File::new(format!("{name}_hls.json"), about)]
}

fn vitis(name: &str, settings: &Settings) -> String {
    let Settings { part, clock, uncertainty, .. } = settings;
    let uncertain = clock * uncertainty;
    format!(
        "# vitis_hls -f {name}_vitis.tcl
# The project is made in {name}_vitis/: C simulation, synthesis, simulation of the logic, export.
cd [file dirname [file normalize [info script]]]
open_project -reset {name}_vitis
set_top {name}_top
add_files {name}_top.cpp
add_files -tb {{{name}_tb.cpp {name}_in.hex {name}_out.hex}}
open_solution -reset solution1 -flow_target vivado
set_part {part}
create_clock -period {clock} -name default
set_clock_uncertainty {uncertain}
csim_design
csynth_design
cosim_design
export_design -flow syn -rtl verilog -format ip_catalog
exit
"
    )
}

fn catapult(name: &str, settings: &Settings) -> String {
    let Settings { clock, uncertainty, .. } = settings;
    let (half, uncertain) = (clock / 2.0, clock * uncertainty);
    format!(
        "# catapult -shell -file {name}_catapult.tcl
# LIBRARY in the environment names the technology library of the installation.
set here [file dirname [file normalize [info script]]]
set library nangate-45nm_beh
if {{[info exists env(LIBRARY)]}} {{ set library $env(LIBRARY) }}
solution new -state initial
solution options defaults
solution options set /Input/CppStandard c++17
solution file add [file join $here {name}_top.cpp] -type C++
solution file add [file join $here {name}_tb.cpp] -type C++ -exclude true
go analyze
directive set -DESIGN_HIERARCHY {name}_top
go compile
solution library add $library
go libraries
directive set -CLOCKS {{clk {{-CLOCK_PERIOD {clock} -CLOCK_HIGH_TIME {half} -CLOCK_UNCERTAINTY {uncertain}}}}}
directive set {{/{name}_top/model_inp:rsc}} -MAP_TO_MODULE ccs_ioport.ccs_in
directive set {{/{name}_top/model_out:rsc}} -MAP_TO_MODULE ccs_ioport.ccs_out
go assembly
directive set {{/{name}_top/core/main}} -PIPELINE_INIT_INTERVAL 1
go architect
go allocate
go extract
"
    )
}

fn oneapi(name: &str, settings: &Settings) -> String {
    let Settings { device, clock, .. } = settings;
    format!(
        "# cmake -B build && cmake --build build --target emulator && (cd build && ./emulator)
# Targets: emulator, report (a few minutes), simulator, hardware (hours).
cmake_minimum_required(VERSION 3.20)
set(CMAKE_CXX_COMPILER icpx)
project({name} LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 17)
set(DEVICE {device} CACHE STRING \"a family or a part of Intel\")
set(CLOCK {clock}ns CACHE STRING \"the clock period\")

# The testbench looks for its vectors in the working folder.
file(COPY {name}_in.hex {name}_out.hex DESTINATION ${{CMAKE_BINARY_DIR}})

# Arguments behind the name: what the target is compiled with and linked with.
function(add_fpga target)
  add_executable(${{target}} EXCLUDE_FROM_ALL {name}_tb.cpp)
  target_compile_options(${{target}} PRIVATE -fsycl -fintelfpga -qactypes ${{ARGN}})
  target_link_options(${{target}} PRIVATE -fsycl -fintelfpga -qactypes ${{ARGN}})
endfunction()

set(HARDWARE -Xshardware -Xstarget=${{DEVICE}} -Xsclock=${{CLOCK}} -DFPGA_HARDWARE)
set(SIMULATION -Xssimulation -Xstarget=${{DEVICE}} -Xsclock=${{CLOCK}} -DFPGA_SIMULATOR)
add_fpga(emulator -DFPGA_EMULATOR)
add_fpga(report ${{HARDWARE}} -fsycl-link=early)
add_fpga(simulator ${{SIMULATION}})
add_fpga(hardware ${{HARDWARE}})
"
    )
}

fn description(
    design: &Design<'_>,
    pipeline: &Pipeline,
    settings: &Settings,
    vectors: usize,
) -> Value {
    let Design { name, flavour, input, output, interface, lowered, .. } = design;
    json!({
        "schema": 1,
        "name": name,
        "kind": flavour.name(),
        "function": format!("{name}_logic"),
        "top": format!("{name}_top"),
        "files": [header::SUPPORT.to_owned(), format!("{name}.h"), top::file_name(design)],
        "stages": pipeline.stages.len(),
        "registers": lowered.registers.len(),
        "initiation_interval": 1,
        "model_inp": array(*flavour, input, &interface.inputs),
        "model_out": array(*flavour, output, &interface.outputs),
        "driver": driver(interface),
        "testbench_vectors": vectors,
        "part": settings.part,
        "device": settings.device,
        "clock_ns": settings.clock,
        "uncertainty": settings.uncertainty,
    })
}

/// The type of all elements of an array, and for each whose number it is, and its own type.
fn array(flavour: Flavour, numbers: &Numbers, ports: &[Port]) -> Value {
    let counts = ports.iter().map(|port| (port.name.as_str(), element_count(&port.shape)));
    let owners = counts.flat_map(|(name, count)| (0..count.unwrap_or(0)).map(move |i| (name, i)));
    let number = |(kif, (port, element)): (&Kif, (&str, usize))| {
        let kif = [i32::from(kif.signed), kif.integer, kif.fraction];
        json!({ "port": port, "element": element, "type": kif })
    };
    let numbers_of: Vec<Value> = numbers.kifs.iter().zip(owners).map(number).collect();
    json!({ "type": flavour.type_name(numbers.fixed), "numbers": numbers_of })
}
