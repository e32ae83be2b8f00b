//! Lines of tiles and transfers.

use super::Manner;
use super::place::{Held, Part, from};
use super::transfers::{Dram, Moved};
use crate::files::At;
use crate::files::layers::{ConvLayer, Layer, Operation, VectorLayer, VectorOperation};
use crate::files::schedule::{Area, Schedule, Tile, Workload};
use crate::isa::{
    ACCD, ActMode, CMPD, CMPS, DataFmt, DataSign, Float2Fixed, Inst, MG0S, Number, QSMD, Queues,
    SG0M, SG1M, SUMM, SWRS, TREED, YCutMode,
};
use crate::work::{
    Conv, ConvKind, Copy, Lines, Place, Registers, Reorder, WeightDest, WeightSource, Weights,
    Work, lines,
};
use quincunx_diag::Result;

/// Lines with what they do.
pub(super) type Written = (Work, Lines);

/// The lines of a piece of work, which mean it.
///
/// # Errors
/// `Q4073` for numbers that a field is too narrow for.
fn written(work: Work, at: &At<'_>) -> Result<Written> {
    let lines = lines(&work).filter(|lines| does(lines) == Some(work));
    let lines = lines.ok_or_else(|| at.wrong("Q4073", "a number is too large for its field"))?;
    Ok((work, lines))
}

/// What lines do.
fn does(lines: &Lines) -> Option<Work> {
    let mut registers = Registers::default();
    for config in &lines.configs {
        registers.step(config).ok()?;
    }
    registers.step(&lines.inst).ok()
}

/// A number of a narrow field.
pub(super) fn narrow<T: TryFrom<i64>>(value: i64, at: &At<'_>) -> Result<T> {
    T::try_from(value).map_err(|_| at.wrong("Q4073", format!("{value} is too large for its field")))
}

/// What a tile reads and its padding must be enough for its windows.
fn check_windows(layer: &Layer<'_>, tile: &Tile<'_>) -> Result<()> {
    let (size, read) = (tile.output.extents(), tile.input.extents());
    let [kernel, stride] = layer.window;
    for axis in 0..2 {
        let need = (size[axis + 2] - 1) * stride[axis] + kernel[axis];
        let found = read[axis + 2] + tile.padding[0][axis] + tile.padding[1][axis];
        if need > found {
            let message = format!("reads {found} positions of axis {}, needs {need}", axis + 2);
            return Err(tile.at.wrong("Q4073", message));
        }
    }
    Ok(())
}

/// A convolution. Published programs count rows of the source from the first row of the buffer, also
/// where they begin to read further below.
pub(super) fn conv(
    workload: &Workload<'_>,
    layer: &Layer<'_>,
    conv: &ConvLayer,
    tile: &Tile<'_>,
    held: &Held<'_>,
    weights: i64,
    manner: Manner,
) -> Result<Written> {
    let at = &tile.at;
    let cut = tile.cut.ok_or_else(|| at.wrong("Q4072", "expected a member \"cut_mode\""))?;
    let (input, output) = (held.inputs[0], held.output);
    let size = tile.output.extents();
    let read = tile.input.extents();
    let [kernel, stride] = layer.window;
    check_windows(layer, tile)?;
    if read[1] != conv.weights[1] || output.format != layer.format {
        let message = format!("reads {} channels, its layer {}", read[1], conv.weights[1]);
        return Err(at.wrong("Q4073", message));
    }
    let offset = from(held.origin, tile.input.lower);
    let mut from_input = input.place(offset, read)?;
    let mut source = input.extents();
    if manner == Manner::Ours {
        source[1] -= (input.first[2] + offset[2]) as u32;
    }
    let [top, left] = tile.padding[0];
    let columns = i64::from(input.extents()[2]);
    from_input.address -= (top * columns + left) * input.pixel();
    let [offset, factor] = conv.quantiser.unwrap_or([Number::whole(0); 2]);
    let work = Conv {
        kind: ConvKind::Plain,
        formats: [input.format, DataFmt::INT8, layer.format],
        signed: [true, true],
        pad: conv.pad,
        source,
        dest: output.extents(),
        activation: (if conv.relu { ActMode::RELU } else { ActMode::DISABLE }, Number::ZERO),
        quantiser: (Float2Fixed::ROUND, offset, factor),
        accumulate: None,
        stride: stride.map(|stride| stride as u32),
        y_cut: cut.y,
        kernel: kernel.map(|extent| extent as u32),
        tile: [size[0], size[1], read[1], size[2], size[3]].map(|extent| extent as u32),
        mini: [cut.channels[1], cut.channels[0]].map(|channels| channels as u32),
        mini_image: cut.image.map(|extent| (extent - 1) as u32),
        dilate: [1, 1],
        insert: [1, 1],
        groups: 1,
        phase: 0,
        start: [top, left].map(|padding| -(padding as i32)),
        input: from_input,
        weights: narrow(weights, at)?,
        output: output.place(from(workload.area.lower, tile.output.lower), size)?,
    };
    written(Work::Conv(work), at)
}

/// Vector work. Published programs have the addresses of a workload's first image in all its lines.
pub(super) fn vector(
    workload: &Workload<'_>,
    layer: &Layer<'_>,
    vector: &VectorLayer,
    tile: &Tile<'_>,
    held: &Held<'_>,
    manner: Manner,
) -> Result<Written> {
    let (at, output) = (&tile.at, held.output);
    let (input, second) = (held.inputs[0], held.inputs.get(1).unwrap_or(&held.inputs[0]));
    if input.extents() != second.extents() || input.format != second.format {
        return Err(workload.at.wrong("Q4073", "its two inputs lie in buffers of other extents"));
    }
    let [images, channels, ..] = tile.output.extents();
    if output.format != layer.format || images != 1 {
        return Err(at.wrong("Q4073", "expected one image, in the format of its layer"));
    }
    if tile.input.extents()[1] != channels {
        return Err(at.wrong("Q4073", "reads another number of channels than it computes"));
    }
    check_windows(layer, tile)?;
    let place = |part: &Part<'_>, area: &Area, origin: [i64; 4]| {
        let offset = match manner {
            Manner::Compat => [0; 4],
            Manner::Ours => from(origin, area.lower),
        };
        part.place(offset, area.extents())
    };
    let mut sources =
        [place(&input, &tile.input, held.origin)?, place(second, &tile.input, held.origin)?];
    let target = place(&output, &tile.output, workload.area.lower)?;
    let dest = output.extents().map(i64::from);
    let is_pool = matches!(vector.kind, VectorOperation::Largest | VectorOperation::Average(_));
    let [top, left] = tile.padding[0];
    let columns = i64::from(input.extents()[2]);
    for source in sources.iter_mut().filter(|_| is_pool) {
        source.address -= (top * columns + left) * input.pixel();
    }
    let mut source = input.extents().map(i64::from);
    if manner == Manner::Ours {
        source[1] = tile.input.extents()[2];
    }
    let configs = configs(layer, vector, tile, [(source, input.format), (dest, output.format)])?;
    let inst = match is_pool {
        true => pool(vector, sources[0], target, tile)?,
        false => single(vector, input.format, sources, target, at)?,
    };
    let lines = Lines { configs: configs.into_iter().collect(), inst };
    let work = does(&lines).ok_or_else(|| at.wrong("Q4073", "has no form"))?;
    Ok((work, lines))
}

fn configs(
    layer: &Layer<'_>,
    vector: &VectorLayer,
    tile: &Tile<'_>,
    [(source, idf), (dest, odf)]: [([i64; 3], DataFmt); 2],
) -> Result<[Inst; 8]> {
    let at = &tile.at;
    let whole = Number::whole;
    let (largest, product) = match vector.kind {
        VectorOperation::Largest => (true, whole(0)),
        VectorOperation::Average(factor) => (false, factor),
        _ => (false, whole(0)),
    };
    let [[iqb0, iqk0], [iqb1, iqk1]] = vector.dequantisers;
    let [qb, qk] = vector.quantiser;
    let [[kernel_h, kernel_w], [stride_h, stride_w]] = layer.window;
    let [source_c, source_h, source_w] = source;
    let [dest_c, dest_h, dest_w] = dest;
    let [_, tile_c, tile_h, tile_w] = tile.output.extents();
    Ok([
        Inst::VpCfgGcs {
            cmps: if largest { CMPS::MAX } else { CMPS::DEFAULT },
            sg0m: SG0M::DEFAULT,
            cmpvs: 0,
            sg0vs: 0,
            sg0v: whole(0),
            cmpv: whole(0),
        },
        Inst::VpCfgGms {
            used: false,
            sege: 0,
            segn: 0,
            mg0s: MG0S::DEFAULT,
            sg1m: SG1M::DEFAULT,
            mg0vs: 0,
            sg1vs: 0,
            sg1v: whole(0),
            mg0v: product,
        },
        Inst::VpCfgSms { summ: SUMM::DEFAULT, mulvs: 0, sumvs: 0, sumv: whole(0), mulv: whole(0) },
        Inst::VpCfgQp {
            qcs: if vector.round { Float2Fixed::ROUND } else { Float2Fixed::CEIL },
            qsmd: QSMD::DEFAULT,
            qb,
            qk,
        },
        Inst::VpCfgIq { iqcs: 0, iqb0, iqk0 },
        Inst::VpCfgIq1 { iqb1, iqk1 },
        Inst::VpCfgFm {
            if_sign: DataSign::SIGNED,
            of_sign: DataSign::SIGNED,
            idf,
            odf,
            vf32: 0,
            source_c: narrow(source_c, at)?,
            source_h: narrow(source_h, at)?,
            source_w: narrow(source_w, at)?,
            dest_c: narrow(dest_c, at)?,
            dest_h: narrow(dest_h, at)?,
            dest_w: narrow(dest_w, at)?,
        },
        Inst::VpCfgTp {
            stride_h: narrow(stride_h, at)?,
            stride_w: narrow(stride_w, at)?,
            kernel_h: narrow(kernel_h, at)?,
            kernel_w: narrow(kernel_w, at)?,
            tile_c: narrow(tile_c, at)?,
            tile_h: narrow(tile_h, at)?,
            tile_w: narrow(tile_w, at)?,
            t1f: if vector.kind == VectorOperation::Add { 7 } else { 0 },
            t0f: 7,
            padv_area: if largest { i16::MIN } else { 0 },
        },
    ])
}

/// Tensor 0, tensor 1, ReLU.
fn groups(vector: &VectorLayer) -> u8 {
    4 | u8::from(vector.kind == VectorOperation::Add) | u8::from(vector.relu) << 6
}

fn single(
    vector: &VectorLayer,
    format: DataFmt,
    [source, second]: [Place; 2],
    target: Place,
    at: &At<'_>,
) -> Result<Inst> {
    let adds = vector.kind == VectorOperation::Add;
    Ok(Inst::VpSelf {
        // Numbers of half precision that are quantised alone have no dequantiser.
        iqen: u8::from(adds || format != DataFmt::FP16),
        qen: 3,
        shmd: 0,
        gpmd: groups(vector),
        cmpd: CMPD(0),
        treed: TREED(0),
        accd: ACCD(0),
        tm: 0,
        swrs: SWRS(0),
        lut: if adds { 18 } else { 16 },
        sbsg: 0,
        sbsg1: 0,
        dbsg: 0,
        staddr: narrow(source.address, at)?,
        staddr1: narrow(second.address, at)?,
        dtaddr: narrow(target.address, at)?,
        prev: Queues::NONE,
        next: Queues::NONE,
    })
}

fn pool(vector: &VectorLayer, source: Place, target: Place, tile: &Tile<'_>) -> Result<Inst> {
    let at = &tile.at;
    let [top, left] = tile.padding[0];
    Ok(Inst::VpPool {
        iqen: 1,
        qen: 3,
        shmd: 0,
        gpmd: groups(vector),
        cmpd: CMPD(0),
        treed: TREED(0),
        accd: ACCD(0),
        swrs: SWRS(0),
        lut: if vector.kind == VectorOperation::Largest { 17 } else { 56 },
        iph: narrow(-top, at)?,
        ipw: narrow(-left, at)?,
        sbsg: 0,
        dbsg: 0,
        staddr: narrow(source.address, at)?,
        dtaddr: narrow(target.address, at)?,
        prev: Queues::NONE,
        next: Queues::NONE,
    })
}

/// A second copy of the result of a workload.
pub(super) fn copy(workload: &Workload<'_>, source: Part<'_>, target: Part<'_>) -> Result<Written> {
    let size = workload.area.extents();
    let [n, c, h, w] = size.map(|extent| extent as u32);
    let work = Reorder {
        order: 0,
        format: source.format,
        tensors: [source.extents(), target.extents()],
        places: [source.place([0; 4], size)?, target.place([0; 4], size)?],
        images: n,
        tile: [c, h, w],
    };
    written(Work::Reorder(work), &workload.at)
}

/// Weights of output channels from DRAM or L2.
pub(super) fn weights(
    source: WeightSource,
    dest: WeightDest,
    cut: Option<YCutMode>,
    channels: i64,
    [_, c, r, s]: [i64; 4],
    at: &At<'_>,
) -> Result<Written> {
    let row = [c, r, s].map(|extent| extent as u32);
    let work = Weights {
        source,
        dest,
        format: DataFmt::INT8,
        mask: None,
        y_cut: cut,
        source_row: row,
        dest_row: row,
        channels: channels as u32,
        row,
    };
    written(Work::Weights(work), at)
}

/// Activations from DRAM or to it.
pub(super) fn activations(
    moved: &Moved<'_>,
    workload: &Workload<'_>,
    schedule: &Schedule<'_>,
    dram: &Dram<'_>,
) -> Result<Written> {
    let (buffer, name, load, first) = match *moved {
        Moved::Load(buffer) => {
            let from_dram = buffer.sources.iter().filter(|source| source.dram);
            let [source] = from_dram.collect::<Vec<_>>()[..] else {
                return Err(buffer.at.wrong("Q4073", "expected one source in DRAM"));
            };
            let Some(area) = schedule.loads.get(&source.transfer) else {
                let message = format!("nothing in $.-1.out is transfer {}", source.transfer);
                return Err(buffer.at.wrong("Q4073", message));
            };
            if area.extents() != source.area.extents() || source.area.lower != [0; 4] {
                return Err(buffer.at.wrong("Q4073", "its source has other extents in $.-1.out"));
            }
            (buffer, source.layer, true, area.lower)
        }
        Moved::Store(buffer, layer) => {
            let store = schedule.store(layer, workload.id);
            let fits = |area: &Area| area.extents() == buffer.area.extents();
            let Some(area) = store.filter(fits) else {
                return Err(buffer.at.wrong("Q4073", "nothing in $.-1.in is this tensor"));
            };
            (buffer, layer, false, area.lower)
        }
        Moved::Weights(buffer) => return Err(buffer.at.wrong("Q4073", "holds weights")),
        Moved::Resident(slot, _) => return Err(slot.at.wrong("Q4073", "holds weights")),
    };
    let Some(tensor) = dram.tensors.get(name) else {
        let message = format!("DRAM has no tensor {name:?}, only inputs and what was stored");
        return Err(buffer.at.wrong("Q4073", message));
    };
    let held = Part { buffer, first: [0; 4], format: tensor.format };
    let size = buffer.area.extents();
    let beyond = (0..4).any(|axis| first[axis] + size[axis] > tensor.extents[axis]);
    if beyond || i64::from(crate::work::element_bytes(tensor.format)) * 8 != buffer.bits {
        let message = format!("is no part of {name:?}, which has {:?}", tensor.extents);
        return Err(buffer.at.wrong("Q4073", message));
    }
    let [n, c, h, w] = size.map(|extent| extent as u32);
    let work = Copy {
        load,
        bas: 0,
        dense: true,
        format: tensor.format,
        dram: narrow(tensor.byte(first), &buffer.at)?,
        l2: held.place([0; 4], size)?,
        images: n,
        tile: [c, h, w],
        dram_tensor: [1, 2, 3].map(|axis| tensor.extents[axis] as u32),
        l2_tensor: held.extents(),
    };
    written(Work::Copy(work), &buffer.at)
}

/// What the tiles of a layer are: convolutions or vector work.
pub(super) fn conv_of<'a>(layer: &'a Layer<'_>) -> Option<&'a ConvLayer> {
    match &layer.operation {
        Operation::Conv(conv) => Some(conv),
        Operation::Vector(_) => None,
    }
}
