//! Scripts and constraints for the vendors' tools, and what the files are as JSON.

use super::estimate::Estimate;
use super::print::Top;
use super::{Field, Language, Settings, wrapper};
use quincunx_contract::{File, Interface, Port, Scaling};
use quincunx_tensor::element_count;
use serde_json::{Value, json};
use std::fmt::Write;

/// Scripts, constraints and description.
pub(super) fn files(
    top: &Top<'_>,
    settings: &Settings,
    language: Language,
    interface: &Interface,
    vectors: usize,
) -> Vec<File> {
    let name = top.name;
    let about = format!("{:#}\n", description(top, settings, language, interface, vectors));
    vec![
        File::new(format!("{name}.xdc"), constraints(top, settings)),
        File::new(format!("{name}.sdc"), constraints(top, settings)),
        File::new(format!("{name}_vivado.tcl"), vivado(top, settings, language)),
        File::new(format!("{name}_quartus.tcl"), quartus(top, settings, language)),
        File::new(format!("{name}_rtl.json"), about),
    ]
}

/// The same commands mean the same to both vendors' tools. Logic without a clock is measured
/// against one that exists on paper only.
fn constraints(top: &Top<'_>, settings: &Settings) -> String {
    let Settings { clock: period, uncertainty, io_delay: (shortest, longest), .. } = settings;
    let mut out = String::new();
    let clock = if top.clocked() { "clk" } else { "io_clock" };
    let target = if top.clocked() { " [get_ports clk]" } else { "" };
    let _ = writeln!(out, "create_clock -name {clock} -period {period}{target}");
    let _ = writeln!(out, "set_clock_uncertainty {} [get_clocks {clock}]", period * uncertainty);
    let mut delay = |direction: &str, port: &str| {
        for (end, value) in [("min", shortest), ("max", longest)] {
            let ports = format!("[get_ports {{{port}[*]}}]");
            let _ = writeln!(out, "set_{direction}_delay -clock {clock} -{end} {value} {ports}");
        }
    };
    if top.input_width() > 0 {
        delay("input", "model_inp");
    }
    delay("output", "model_out");
    out
}

fn vivado(top: &Top<'_>, settings: &Settings, language: Language) -> String {
    let (name, part) = (top.name, &settings.part);
    let read = match language {
        Language::Verilog => format!("read_verilog [file join $here {name}.v]"),
        Language::Vhdl => format!("read_vhdl -vhdl2008 [file join $here {name}.vhd]"),
    };
    format!(
        "# vivado -mode batch -source {name}_vivado.tcl
# Out of context: the ports are not pins. Reports go to {name}_vivado/.
set here [file dirname [file normalize [info script]]]
set reports [file join $here {name}_vivado]
file mkdir $reports
{read}
read_xdc -mode out_of_context [file join $here {name}.xdc]
synth_design -top {name} -part {part} -mode out_of_context -flatten_hierarchy full
report_utilization -file [file join $reports synth_utilization.rpt]
opt_design
place_design
phys_opt_design
route_design
report_timing_summary -file [file join $reports timing_summary.rpt]
report_utilization -file [file join $reports utilization.rpt]
report_power -file [file join $reports power.rpt]
write_checkpoint -force [file join $reports {name}.dcp]
"
    )
}

fn quartus(top: &Top<'_>, settings: &Settings, language: Language) -> String {
    let (name, device) = (top.name, &settings.device);
    let source = match language {
        Language::Verilog => {
            format!("set_global_assignment -name VERILOG_FILE [file join $here {name}.v]")
        }
        Language::Vhdl => format!(
            "set_global_assignment -name VHDL_INPUT_VERSION VHDL_2008
set_global_assignment -name VHDL_FILE [file join $here {name}.vhd]"
        ),
    };
    // Every port as a virtual pin: modules have more bits than devices have pins. Braces keep Tcl from
    // taking brackets for a command.
    let mut pins = String::new();
    if top.input_width() > 0 {
        pins += "set_instance_assignment -name VIRTUAL_PIN ON -to {model_inp[*]}\n";
    }
    pins += "set_instance_assignment -name VIRTUAL_PIN ON -to {model_out[*]}\n";
    format!(
        "# quartus_sh -t {name}_quartus.tcl
# The project is made in {name}_quartus/.
package require ::quartus::project
package require ::quartus::flow
set here [file dirname [file normalize [info script]]]
file mkdir [file join $here {name}_quartus]
cd [file join $here {name}_quartus]
project_new -overwrite {name}
set_global_assignment -name DEVICE {device}
set_global_assignment -name TOP_LEVEL_ENTITY {name}
{source}
set_global_assignment -name SDC_FILE [file join $here {name}.sdc]
{pins}execute_flow -compile
project_close
"
    )
}

fn description(
    top: &Top<'_>,
    settings: &Settings,
    language: Language,
    interface: &Interface,
    vectors: usize,
) -> Value {
    let estimate = Estimate::of(top.design, top.registers);
    let cost: f64 = top.pipeline.stages.iter().flat_map(|s| &s.operations).map(|o| o.cost).sum();
    let formats = wrapper::formats(top);
    let kif = |kif: quincunx_num::Kif| json!([u8::from(kif.signed), kif.integer, kif.fraction]);
    json!({
        "schema": 1,
        "name": top.name,
        "language": language.name(),
        "stages": top.design.stages.len(),
        "registers": top.registers,
        "latency_cycles": top.latency(),
        "initiation_interval": 1,
        "cost": cost,
        "estimate": {
            "lut": estimate.luts, "carry4": estimate.carries, "ff": estimate.flip_flops,
            "multiplier": estimate.multipliers,
        },
        "model_inp": { "width": top.input_width(), "fields": fields(&top.design.inputs, &interface.inputs) },
        "model_out": { "width": top.output_width(), "fields": fields(&top.design.outputs, &interface.outputs) },
        "driver": driver(interface),
        "wrapper": { "input": kif(formats.input), "output": kif(formats.output) },
        "testbench_vectors": vectors,
        "part": settings.part,
        "device": settings.device,
        "clock_ns": settings.clock,
        "uncertainty": settings.uncertainty,
        "io_delay_ns": [settings.io_delay.0, settings.io_delay.1],
    })
}

/// What the driver does outside of the logic.
pub(crate) fn driver(interface: &Interface) -> Vec<Value> {
    let scaled = interface.scalings.iter().map(scaled);
    interface.inputs.iter().filter_map(driven).chain(scaled).collect()
}

/// What the driver does with the numbers of an input before they become bits.
fn driven(port: &Port) -> Option<Value> {
    let quantiser = port.grid.quantiser()?;
    Some(json!({ "port": port.name, "quantise": quantiser.to_string() }))
}

/// What the driver makes of the numbers of an output.
fn scaled(scaling: &Scaling) -> Value {
    json!({ "port": scaling.output, "factors": scaling.factors, "addends": scaling.addends })
}

/// Every number of a port: whose it is, where its bits are, and their type.
fn fields(fields: &[Field], ports: &[Port]) -> Vec<Value> {
    let counts = ports.iter().map(|port| (port.name.as_str(), element_count(&port.shape)));
    let owners = counts.flat_map(|(name, count)| (0..count.unwrap_or(0)).map(move |i| (name, i)));
    let field = |(field, (port, element)): (&Field, (&str, usize))| {
        let Field { low, kif } = *field;
        json!({
            "port": port, "element": element, "low": low, "width": field.width(),
            "type": [u8::from(kif.signed), kif.integer, kif.fraction],
        })
    };
    fields.iter().zip(owners).map(field).collect()
}
