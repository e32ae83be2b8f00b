//! Transfers: what the DRAM port loads next, and to where.
//!
//! Weights take their places in WL0 in the order of their use, as a ring. What has no room there yet
//! goes to L2 meanwhile, unless its layer is to wait: then what is needed later is staged instead.

use super::memory::{ALIGN, Block};
use super::schedule::{Part, Resident, Scheduler, State};
use crate::isa::DataFmt;
use crate::work::{
    Copy, Place, WeightDest, WeightSource, Weights, Work, channel_bytes, dense_row_bytes,
    element_bytes, pitch,
};

impl Scheduler<'_, '_> {
    /// Writes one transfer that can start before a time; false when there is none.
    pub(super) fn advance(&mut self, until: u64) -> bool {
        let free = self.team.dram_free();
        if self.stores.front().is_some_and(|store| self.team.end(&store.after) <= free) {
            self.store();
            return true;
        }
        if self.move_staged()
            || self.load_input(self.next, until)
            || self.load_direct(until, true)
            || self.load_input(self.ahead.max(self.next + self.ways.all.lead), until)
            || self.load_staged(until)
            || self.load_direct(until, false)
        {
            return true;
        }
        let waits = !self.stores.is_empty() && until == u64::MAX;
        if waits {
            self.store();
        }
        waits
    }

    /// Loads the next part of an input if not more than so many loads of weights come before it.
    fn load_input(&mut self, rank: usize, until: u64) -> bool {
        let Some(&part) = self.inputs.front() else { return false };
        if part.rank > rank || self.blocks[part.block].first > self.step {
            return false;
        }
        let (work, address) = self.input(part);
        if self.team.start(&work) >= until {
            return false;
        }
        let map = self.transfer_map(self.steps[part.need].layer);
        let images = (part.image, 1);
        let ops = self.team.write(&work, &map, images, None);
        let input = self.job.inputs[part.tensor];
        if part.rows.0 + part.rows.1 == input.extents[1] {
            self.lands(input.value, &ops, images, address);
        }
        self.inputs.pop_front();
        true
    }

    /// The copy of a part of an input, and the first byte of its image.
    fn input(&self, part: Part) -> (Work, u64) {
        let input = self.job.inputs[part.tensor];
        let group = part.image / self.ways.all.group;
        let [c, height, w] = input.extents;
        let (row, rows) = part.rows;
        let bytes = element_bytes(input.format);
        let dense = u64::from(w) * u64::from(c) * u64::from(bytes);
        let images = if input.is_constant { 0 } else { part.image };
        let above = u64::from(height) * u64::from(images) + u64::from(row);
        let image = self.image(input.value, group, part.image);
        let address = image + u64::from(row) * u64::from(w) * u64::from(pitch(c, bytes));
        let work = Work::Copy(Copy {
            load: true,
            bas: u8::from(input.is_constant),
            dense: true,
            format: input.format,
            dram: input.address + (dense * above) as u32,
            l2: Place { region: 0, address: address as i64 },
            images: 1,
            tile: [c, rows, w],
            dram_tensor: input.extents,
            l2_tensor: input.extents,
        });
        (work, image)
    }

    /// The transfer of a tile from DRAM, to WL0 or L2.
    fn weights(
        &self,
        instance: usize,
        tile: usize,
        source: WeightSource,
        dest: WeightDest,
    ) -> Weights {
        let own = &self.instances[instance];
        let piece = self.steps[own.steps.0].piece;
        let conv = self.cutter.conv(&self.job.network.layers[own.layer], piece);
        let row = conv.weight_row();
        Weights {
            source,
            dest,
            format: DataFmt::INT8,
            mask: None,
            y_cut: matches!(dest, WeightDest::Wl0(_)).then_some(own.y),
            source_row: row,
            dest_row: row,
            channels: own.tiles[tile].channels,
            row,
        }
    }

    fn dram_source(&self, instance: usize, tile: usize) -> (WeightSource, u64) {
        let own = &self.instances[instance];
        let piece = self.steps[own.steps.0].piece;
        let conv = self.cutter.conv(&self.job.network.layers[own.layer], piece);
        let row = dense_row_bytes(conv.weight_row(), 1);
        let offset = channel_bytes(own.tiles[tile].first, row);
        let address = self.job.weights[&own.layer] + offset as u32;
        let bytes = channel_bytes(own.tiles[tile].channels, row);
        (WeightSource::Dram { bas: 1, address }, bytes)
    }

    /// Loads the next tile of weights into WL0; if `prompt` only when that can start soon.
    fn load_direct(&mut self, until: u64, prompt: bool) -> bool {
        let Some(load) = self.loads.get(self.next) else { return false };
        let (instance, tile) = (load.instance, load.tile);
        if load.state != State::Waiting {
            return false;
        }
        // Of several cores each would read the same from DRAM.
        if self.team.is_several() && (prompt || until < u64::MAX) {
            return false;
        }
        let Some(at) = self.room(instance, tile) else { return false };
        let (source, _) = self.dram_source(instance, tile);
        let work = Work::Weights(self.weights(instance, tile, source, WeightDest::Wl0(at)));
        let start = self.team.start(&work);
        let layer = self.instances[instance].layer;
        let patience = match self.is_held(self.next) {
            true => u64::MAX,
            false => self.ways.of(layer).patience,
        };
        if start >= until || prompt && start > self.team.dram_free().saturating_add(patience) {
            return false;
        }
        self.team.write(&work, &self.transfer_map(layer), self.users(instance), None);
        self.reside(at);
        true
    }

    /// Whether a tile waits for its place in WL0 whatever happens.
    fn is_held(&self, load: usize) -> bool {
        let own = &self.instances[self.loads[load].instance];
        // Several cores load weights from each other's L2.
        if self.team.is_several() {
            return false;
        }
        match self.ways.of(own.layer).direct {
            0 => false,
            every => own.set.is_multiple_of(every as usize),
        }
    }

    /// Loads the next tile of weights that may be staged into L2.
    fn load_staged(&mut self, until: u64) -> bool {
        self.ahead = self.ahead.max(self.next);
        while self
            .loads
            .get(self.ahead)
            .is_some_and(|load| load.state != State::Waiting || self.is_held(self.ahead))
        {
            self.ahead += 1;
        }
        let Some(load) = self.loads.get(self.ahead) else { return false };
        let (instance, tile) = (load.instance, load.tile);
        let (source, bytes) = self.dram_source(instance, tile);
        let (first, last) = (self.step, self.instances[instance].steps.0);
        let mut others: Vec<Block> = self.staged().collect();
        let limit = u64::from(self.cutter.arch.l2_bytes);
        let bytes = bytes.next_multiple_of(ALIGN);
        let find = |others: &[Block]| self.occupied.find(bytes, first, last, others, limit);
        let staged = others.len();
        others.extend(&self.moved);
        let Some(start) = find(&others).or_else(|| find(&others[..staged])) else { return false };
        let place = Place { region: 0, address: start as i64 };
        let work = Work::Weights(self.weights(instance, tile, source, WeightDest::L2(place)));
        if self.team.start(&work) >= until {
            return false;
        }
        let map = self.transfer_map(self.instances[instance].layer);
        let Some(staged) = self.team.stage(&work, &map, self.users(instance)) else { return false };
        self.loads[self.ahead].state = State::Staged(Block { start, bytes, first, last }, staged);
        true
    }

    /// The blocks of staged weights.
    fn staged(&self) -> impl Iterator<Item = Block> {
        let until = self.ahead.max(self.next);
        self.loads[self.next.min(until)..(until + 1).min(self.loads.len())].iter().filter_map(
            |load| match load.state {
                State::Staged(block, _) => Some(block),
                State::Waiting | State::Resident | State::Operand | State::Packed(_) => None,
            },
        )
    }

    /// Moves the next tile to WL0 if it is staged and there is room.
    fn move_staged(&mut self) -> bool {
        let Some(load) = self.loads.get(self.next) else { return false };
        let (instance, tile) = (load.instance, load.tile);
        let (start, staged) = match load.state {
            State::Staged(block, staged) => (block.start, Some((block, staged))),
            State::Packed(start) => (start, None),
            State::Waiting | State::Operand | State::Resident => return false,
        };
        let Some(at) = self.room(instance, tile) else { return false };
        let source = WeightSource::L2(Place { region: 0, address: start as i64 });
        let weights = self.weights(instance, tile, source, WeightDest::Wl0(at));
        let map = self.transfer_map(self.instances[instance].layer);
        match staged {
            Some((block, staged)) => {
                self.team.fetch(staged, &weights, &map, self.users(instance));
                self.moved.retain(|moved| moved.last >= self.step);
                self.moved.push(block);
            }
            // Every core has its own operand.
            None => {
                let image = self.steps[self.instances[instance].steps.0].piece.image;
                self.team.write(&Work::Weights(weights), &map, (image, 1), None);
            }
        }
        self.reside(at);
        self.instances[instance].streamed = true;
        true
    }

    /// The images that weights are for.
    fn users(&self, instance: usize) -> (u32, u32) {
        self.images_of(self.steps[self.instances[instance].steps.0].group)
    }

    fn units(&self, instance: usize, tile: usize) -> u32 {
        let own = &self.instances[instance];
        let piece = self.steps[own.steps.0].piece;
        let conv = self.cutter.conv(&self.job.network.layers[own.layer], piece);
        self.cutter.units(&conv, own.tiles[tile].channels)
    }

    /// True when no line that is still to be written uses the weights.
    fn is_done(&self, resident: &Resident) -> bool {
        let last = self.instances[resident.instance].steps.1;
        last < self.step || last == self.step && resident.tile < self.tile
    }

    /// Where the ring goes on with room for a tile, if it has room.
    fn room(&self, instance: usize, tile: usize) -> Option<u32> {
        let units = self.units(instance, tile);
        let arch = self.cutter.arch;
        let head = self.head.next_multiple_of(arch.wl0_align);
        let at = if head + units <= arch.wl0_units { head } else { 0 };
        // What lies between is passed over, so that nothing of it may be in use either.
        let mut busy = self.residents.iter().filter(|resident| {
            resident.start < at + units && at < resident.end && !self.is_done(resident)
        });
        (at + units <= arch.wl0_units && busy.next().is_none()).then_some(at)
    }

    /// The next tile of weights lies in WL0.
    fn reside(&mut self, at: u32) {
        let load = &mut self.loads[self.next];
        load.state = State::Resident;
        self.next += 1;
        let (instance, tile) = (load.instance, load.tile);
        let end = at + self.units(instance, tile);
        let residents = std::mem::take(&mut self.residents);
        let keep = |resident: &Resident| resident.end <= at || end <= resident.start;
        self.residents = residents.into_iter().filter(keep).collect();
        self.residents.push(Resident { start: at, end, instance, tile });
        self.instances[instance].places[tile] = Some(at);
        self.head = end;
    }
}
