//! Launch files, written in one form: reading and writing again gives the same text.

use crate::arch::Platform;
use crate::files::zebin;
use crate::program::device::{Buffer, Device, Launch, Layer, Tile, Value};
use quincunx_contract::File;
use quincunx_diag::Result;
use std::fmt::{self, Write};

/// Data of buffers begin at multiples of this in their file.
const ALIGN: usize = 64;

/// Writes a program: the launch file, its kernels as a zebin, and one file with the data of all
/// buffers, if there are any.
///
/// # Errors
/// As [`zebin::write`].
pub fn write(device: &Device, platform: Platform, stem: &str) -> Result<Vec<File>> {
    let code = zebin::write(&device.kernels, platform)?;
    let mut data = Vec::new();
    let mut text = String::new();
    // A string takes everything that is written to it.
    write_text(device, platform, stem, &mut data, &mut text).expect("text can be appended");
    let mut files =
        vec![File::new(format!("{stem}.toml"), text), File::new(format!("{stem}.zebin"), code)];
    if device.buffers.iter().any(|buffer| buffer.data.is_some()) {
        files.push(File::new(format!("{stem}.bin"), data));
    }
    Ok(files)
}

fn write_text(
    device: &Device,
    platform: Platform,
    stem: &str,
    data: &mut Vec<u8>,
    out: &mut String,
) -> fmt::Result {
    writeln!(out, "dpas_launch = {}\nplatform = {}", super::VERSION, quoted(platform.name()))?;
    for kernel in &device.kernels {
        let (name, file) = (quoted(&kernel.name), quoted(&format!("{stem}.zebin")));
        writeln!(out, "\n[[kernel]]\nname = {name}\nfile = {file}")?;
    }
    for buffer in &device.buffers {
        write_buffer(buffer, stem, data, out)?;
    }
    device.layers.iter().try_for_each(|layer| write_layer(layer, out))?;
    device.launches.iter().try_for_each(|launch| write_launch(launch, out))
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A TOML float.
fn float(real: f64) -> String {
    toml::Value::Float(real).to_string()
}

fn list<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
    format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", "))
}

fn write_buffer(buffer: &Buffer, stem: &str, data: &mut Vec<u8>, out: &mut String) -> fmt::Result {
    writeln!(out, "\n[[buffer]]\nname = {}", quoted(&buffer.name))?;
    writeln!(out, "element = {}", quoted(buffer.element.name()))?;
    writeln!(out, "shape = {}", list(&buffer.shape, ToString::to_string))?;
    if let Some(strides) = &buffer.strides {
        writeln!(out, "strides = {}", list(strides, ToString::to_string))?;
    }
    if buffer.offset != 0 {
        writeln!(out, "offset = {}", buffer.offset)?;
    }
    if buffer.extent() != Some(buffer.bytes) {
        writeln!(out, "bytes = {}", buffer.bytes)?;
    }
    writeln!(out, "role = {}", quoted(buffer.role.name()))?;
    if let Some((scale, zero)) = buffer.grid {
        writeln!(out, "scale = {}\nzero_point = {zero}", float(scale))?;
    }
    if buffer.fill != 0 {
        writeln!(out, "fill = {}", buffer.fill)?;
    }
    if let Some(own) = &buffer.data {
        data.resize(data.len().next_multiple_of(ALIGN), 0);
        writeln!(out, "data = {}\ndata_offset = {}", quoted(&format!("{stem}.bin")), data.len())?;
        data.extend(own);
        // Data are those of the whole buffer.
        let behind = buffer.bytes.saturating_sub(own.len() as u64);
        data.resize(data.len().saturating_add(behind as usize), buffer.fill);
    }
    if let Some((outer, at)) = &buffer.inside {
        writeln!(out, "inside = {}\ninside_offset = {at}", quoted(outer))?;
    }
    Ok(())
}

fn write_layer(layer: &Layer, out: &mut String) -> fmt::Result {
    writeln!(out, "\n[[layer]]\nname = {}", quoted(&layer.name))?;
    writeln!(out, "nodes = {}\nmacs = {}", list(&layer.nodes, |node| quoted(node)), layer.macs)?;
    let pair = |(value, name): (&String, &String)| format!("{} = {}", quoted(value), quoted(name));
    let pairs: Vec<String> = layer.values.iter().map(pair).collect();
    if !pairs.is_empty() {
        writeln!(out, "values = {{ {} }}", pairs.join(", "))?;
    }
    layer.tiles.iter().try_for_each(|tile| write_tile(tile, out))
}

fn write_tile(tile: &Tile, out: &mut String) -> fmt::Result {
    let Tile { rows, channels, grfs, verdict, .. } = tile;
    writeln!(out, "[[layer.tiles]]\nrows = {rows}\nchannels = {channels}")?;
    if let Some(weights) = &tile.weights {
        writeln!(out, "weights = {}", quoted(weights))?;
    }
    writeln!(out, "grf_count = {grfs}")?;
    let registers = tile.registers.map(u64::from);
    let numbers = [("registers", registers), ("threads", tile.threads), ("cycles", tile.cycles)];
    for (key, number) in numbers {
        if let Some(number) = number {
            writeln!(out, "{key} = {number}")?;
        }
    }
    if let Some(limit) = &tile.limit {
        writeln!(out, "limit = {}", quoted(limit))?;
    }
    writeln!(out, "verdict = {}", quoted(verdict))
}

fn write_launch(launch: &Launch, out: &mut String) -> fmt::Result {
    writeln!(out, "\n[[launch]]\nkernel = {}", quoted(&launch.kernel))?;
    if let Some(layer) = &launch.layer {
        writeln!(out, "layer = {}", quoted(layer))?;
    }
    writeln!(out, "groups = {}", list(&launch.groups, ToString::to_string))?;
    writeln!(out, "threads = {}", launch.threads)?;
    if let Some(items) = &launch.local_size {
        writeln!(out, "local_size = {}", list(items, ToString::to_string))?;
    }
    let show = |value: &Value| match value {
        Value::Buffer(name) => quoted(name),
        Value::Whole(number) => number.to_string(),
        Value::Real(real) => float(*real),
    };
    writeln!(out, "arguments = {}", list(&launch.arguments, show))
}
