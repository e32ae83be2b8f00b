//! The program: for every layer the kernel whose tile takes the fewest cycles, its constants and a
//! launch.

use super::lower::{Candidate, Choice, Work};
use crate::arch::{DpasArch, Platform};
use crate::program::device::{
    Access, Argument, ArgumentKind, Buffer, Device, Environment, Kernel, Launch, Layer, Place,
    Role, Tile, Value,
};
use crate::program::{Element, Listing};
use crate::shape::RowStride;
use crate::time::{self, Cost};
use crate::{swsb, text};
use bytes::Bytes;
use quincunx_diag::{Diagnostic, Result, SourceId, first};
use std::collections::BTreeMap;

/// A tile may take this part of the cycles of the fastest one more, if it executes fewer instructions.
const CLOSE: u64 = 32;

/// Text, groups, and bytes of the buffers of a launch: what it costs depends on no more.
type Key = (String, [u32; 3], Vec<u64>);

/// A program that grows.
pub(super) struct Builder<'a> {
    /// The program.
    pub(super) device: Device,
    arch: &'a DpasArch,
    stride: RowStride,
    /// Instructions of kernels that were tried, by their texts.
    listings: BTreeMap<String, Listing>,
    /// Names of the program's kernels by their texts.
    names: BTreeMap<String, String>,
    costs: BTreeMap<Key, Result<Cost>>,
}

/// A kernel that was chosen, for threads of so many registers.
struct Chosen {
    candidate: Candidate,
    grfs: u32,
    tiles: Vec<Tile>,
}

/// What a layer is called in a program.
pub(super) struct Names {
    /// The layer, with its nodes and values.
    pub(super) layer: Layer,
    /// Buffers of operands and result.
    pub(super) buffers: Vec<String>,
    /// The buffer of its constants.
    pub(super) constants: String,
}

impl<'a> Builder<'a> {
    /// A program without launches.
    pub(super) fn new(arch: &'a DpasArch, stride: RowStride) -> Builder<'a> {
        Builder {
            device: Device::default(),
            arch,
            stride,
            listings: BTreeMap::new(),
            names: BTreeMap::new(),
            costs: BTreeMap::new(),
        }
    }

    /// Appends a layer.
    ///
    /// # Errors
    /// `Q6182` if no tile fits.
    pub(super) fn add(&mut self, work: &Work<'_>, names: Names) -> Result<()> {
        let Chosen { candidate, grfs, tiles } = self.choose(work)?;
        let kernel = self.kernel(&candidate, grfs)?;
        let groups = candidate.groups;
        let constants = work.constants(candidate);
        let mut buffer =
            Buffer::new(&names.constants, Element::Ub, &[constants.len()], Role::Constant);
        buffer.data = Some(Bytes::from(constants));
        self.device.buffers.push(buffer);
        let buffers = names.buffers.into_iter().chain([names.constants]);
        self.device.launches.push(launch(kernel, groups, buffers, &names.layer.name));
        self.device.layers.push(Layer { tiles, ..names.layer });
        Ok(())
    }

    /// Cycles of a layer with no buffer in a cache before, the most there are if none fits.
    pub(super) fn cycles(&mut self, work: &Work<'_>) -> u64 {
        let chosen = self.choose(work).ok();
        let tiles = chosen.iter().flat_map(|chosen| &chosen.tiles);
        let taken = tiles.filter(|tile| tile.verdict == Tile::TAKEN);
        taken.filter_map(|tile| tile.cycles).next().unwrap_or(u64::MAX)
    }

    /// The kernel of the tile that takes the fewest cycles, about; of several the one that executes
    /// the fewest instructions.
    fn choose(&mut self, work: &Work<'_>) -> Result<Chosen> {
        let mut tiles = Vec::new();
        let mut fitting = Vec::new();
        for Choice { tile: [rows, channels], weights, grfs, kernel } in work.choices()? {
            let weights = weights.map(str::to_owned);
            let mut row = Tile { rows, channels, weights, grfs, ..Tile::default() };
            match kernel {
                Err(why) => row.verdict = why,
                Ok(candidate) => {
                    let cost = self.cost(work, &candidate, grfs);
                    row.of(&candidate, cost.as_ref());
                    fitting.push((tiles.len(), candidate, grfs, cost));
                }
            }
            tiles.push(row);
        }
        let cycles = |cost: &Result<Cost>| cost.as_ref().map_or(u64::MAX, |cost| cost.cycles);
        let least = fitting.iter().map(|(.., cost)| cycles(cost)).min().unwrap_or(0);
        let most = least.saturating_add(least / CLOSE);
        let instructions =
            |cost: &Result<Cost>| cost.as_ref().map_or(u64::MAX, |cost| cost.instructions);
        let close = fitting.into_iter().filter(|(.., cost)| cycles(cost) <= most);
        let chosen = close.min_by_key(|(.., cost)| instructions(cost));
        let Some((at, candidate, grfs, _)) = chosen else {
            let why: Vec<String> = tiles.iter().map(Tile::to_string).collect();
            let message = format!("no tile fits: {}", why.join("; "));
            return Err(Diagnostic::unsupported("Q6182", message));
        };
        for tile in tiles.iter_mut().filter(|tile| tile.verdict.is_empty()) {
            let close = tile.cycles.is_some_and(|cycles| cycles <= most);
            tile.verdict = if close { "more instructions" } else { "slower" }.to_owned();
        }
        tiles[at].verdict = Tile::TAKEN.to_owned();
        Ok(Chosen { candidate, grfs, tiles })
    }

    fn listing(&mut self, text: &str, grfs: u32) -> Result<Listing> {
        if let Some(listing) = self.listings.get(text) {
            return Ok(listing.clone());
        }
        let arch = DpasArch { grfs, ..self.arch.clone() };
        let listing = swsb::assign(&assemble(text, arch.platform)?, &arch, self.stride)?;
        self.listings.insert(text.to_owned(), listing.clone());
        Ok(listing)
    }

    /// What a launch costs when no cache holds its buffers.
    fn cost(&mut self, work: &Work<'_>, candidate: &Candidate, grfs: u32) -> Result<Cost> {
        let images = work.images().map(|image| image.bytes() as u64);
        let bytes: Vec<u64> = images.chain([work.constant_bytes(candidate) as u64]).collect();
        let key = (candidate.written.text.clone(), candidate.groups, bytes);
        if let Some(cost) = self.costs.get(&key) {
            return cost.clone();
        }
        let listing = self.listing(&key.0, grfs)?;
        let buffer = |(at, bytes): (usize, &u64)| Buffer {
            bytes: *bytes,
            ..Buffer::new(at.to_string(), Element::Ub, &[], Role::Scratch)
        };
        let buffers: Vec<Buffer> = key.2.iter().enumerate().map(buffer).collect();
        let names = buffers.iter().map(|buffer| buffer.name.clone());
        let launches = vec![launch(candidate.kind.to_owned(), key.1, names, "")];
        let kernels = vec![kernel(candidate.kind, listing, grfs, self.arch, candidate.operands)];
        let device = Device { kernels, buffers, launches, layers: Vec::new() };
        let costs = time::costs(&device, self.arch, self.stride, u32::MAX);
        let cost = costs.map(|costs| costs[0].clone());
        self.costs.insert(key, cost.clone());
        cost
    }

    /// The name of a kernel, which becomes one of the program's.
    fn kernel(&mut self, candidate: &Candidate, grfs: u32) -> Result<String> {
        let text = &candidate.written.text;
        if let Some(name) = self.names.get(text) {
            return Ok(name.clone());
        }
        let name = format!("{}{}", candidate.kind, self.names.len());
        let listing = self.listing(text, grfs)?;
        let made = kernel(&name, listing, grfs, self.arch, candidate.operands);
        self.device.kernels.push(made);
        self.names.insert(text.clone(), name.clone());
        Ok(name)
    }
}

impl Tile {
    /// Puts in what a kernel needs and costs.
    fn of(&mut self, candidate: &Candidate, cost: std::result::Result<&Cost, &Diagnostic>) {
        self.registers = Some(candidate.written.registers);
        self.threads = Some(candidate.groups.into_iter().map(u64::from).product());
        match cost {
            Ok(cost) => {
                self.cycles = Some(cost.cycles);
                self.limit = Some(cost.limit().to_owned());
            }
            Err(problem) => self.verdict = problem.message().to_owned(),
        }
    }
}

/// The instructions of a text that we wrote.
fn assemble(text: &str, platform: Platform) -> Result<Listing> {
    text::native::read(text, platform, SourceId(0)).map_err(|problems| {
        let problem = first(problems);
        Diagnostic::bug(format!("a kernel of ours is no text: {}", problem.message()))
    })
}

/// A kernel whose arguments are addresses: operands that it reads, the result that it writes,
/// constants.
fn kernel(name: &str, listing: Listing, grfs: u32, arch: &DpasArch, operands: usize) -> Kernel {
    let argument = |index: usize| Argument {
        kind: ArgumentKind::Pointer {
            index: index as u32,
            access: if index + 1 == operands { Access::Write } else { Access::Read },
        },
        offset: 8 * index as u32,
        size: 8,
    };
    Kernel {
        name: name.to_owned(),
        listing,
        environment: Environment {
            grfs,
            simd: arch.platform.lanes(),
            slm: 0,
            barriers: 0,
            inline: arch.platform.grf_bytes(),
            local_ids: 0,
        },
        arguments: (0..=operands).map(argument).collect(),
        place: Place::default(),
    }
}

/// A launch with one thread a group.
fn launch(
    kernel: String,
    groups: [u32; 3],
    buffers: impl Iterator<Item = String>,
    layer: &str,
) -> Launch {
    Launch {
        kernel,
        groups,
        threads: 1,
        local_size: None,
        arguments: buffers.map(Value::Buffer).collect(),
        layer: Some(layer.to_owned()),
        place: Place::default(),
    }
}
