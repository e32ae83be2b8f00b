//! The instruction table, and the words that all instructions share.
//!
//! Facts: `scamp5d`, `cain` (`docs/bibliography.md`). There is no machine code: a program reaches
//! the device as C++ source. What a macro does is said by its bus steps ([`crate::expand`]).

mod operand;
mod view;

pub use operand::{Direction, MAX_NAME, Reg};
pub use view::{Bus, Class, Logic};

pub(crate) use operand::register;
use operand::{GAPLESS, bit, byte, direction, from, more_bits, to};
use quincunx_isa::{Kind, Operand, Term, instructions};

/// Most sources of one bus instruction; `scamp5` has 13 registers on its bus.
pub const MAX_SOURCES: usize = 12;

instructions! {
    /// SCAMP-5: one instruction stream for an array of analogue processing elements. Values on the
    /// bus of an element are summed, negated and divided equally among the registers that receive.
    /// FLAG gates every instruction on analogue registers, per element. In the steps of macros `N` is
    /// NEWS, `X(d)` the NEWS of the neighbour in the direction `d`, and `X(-d)` of the one opposite.
    pub enum Inst, table TABLE = "scamp";
    bits Term::Const(0); params []; fields &[];

    /// The following instructions are for the array; without effect.
    KernelBegin = "scamp5_kernel_begin" "scamp5_kernel_begin()" [] {}
    /// The following statements are for the controller; without effect.
    KernelEnd = "scamp5_kernel_end" "scamp5_kernel_end()" [] {}
    /// Sets `y` to `value / 128` in every processing element; for emulators only.
    Input = "input" "input({y}, {value})" [] {
        /// Destination.
        y: Reg = register(),
        /// Numerator over 128.
        value: i32 = Operand::free(Kind::Signed).within(-(1 << 31), (1 << 31) - 1),
    }
    /// Sets `d0` to minus the sum of the sources; to 0 without sources.
    Bus = "bus" "bus({d0}[, {s0}][, {s1}][, {s2}][, {s3}][, {s4}][, {s5}][, {s6}][, {s7}][, {s8}][, {s9}][, {s10}][, {s11}])" [] fixup GAPLESS {
        #[doc = "A receiver."] d0: Reg = to(),
        #[doc = "A source."] s0: Reg = from(), #[doc = "A source."] s1: Reg = from(), #[doc = "A source."] s2: Reg = from(), #[doc = "A source."] s3: Reg = from(),
        #[doc = "A source."] s4: Reg = from(), #[doc = "A source."] s5: Reg = from(), #[doc = "A source."] s6: Reg = from(), #[doc = "A source."] s7: Reg = from(),
        #[doc = "A source."] s8: Reg = from(), #[doc = "A source."] s9: Reg = from(), #[doc = "A source."] s10: Reg = from(), #[doc = "A source."] s11: Reg = from(),
    }
    /// Sets 2 registers, each to minus one half of the sum of the sources.
    Bus2 = "bus2" "bus2({d0}, {d1}[, {s0}][, {s1}][, {s2}][, {s3}][, {s4}][, {s5}][, {s6}][, {s7}][, {s8}][, {s9}][, {s10}][, {s11}])" [] fixup GAPLESS {
        #[doc = "A receiver."] d0: Reg = to(), #[doc = "A receiver."] d1: Reg = to(),
        #[doc = "A source."] s0: Reg = from(), #[doc = "A source."] s1: Reg = from(), #[doc = "A source."] s2: Reg = from(), #[doc = "A source."] s3: Reg = from(),
        #[doc = "A source."] s4: Reg = from(), #[doc = "A source."] s5: Reg = from(), #[doc = "A source."] s6: Reg = from(), #[doc = "A source."] s7: Reg = from(),
        #[doc = "A source."] s8: Reg = from(), #[doc = "A source."] s9: Reg = from(), #[doc = "A source."] s10: Reg = from(), #[doc = "A source."] s11: Reg = from(),
    }
    /// Sets 3 registers, each to minus one third of the sum of the sources.
    Bus3 = "bus3" "bus3({d0}, {d1}, {d2}[, {s0}][, {s1}][, {s2}][, {s3}][, {s4}][, {s5}][, {s6}][, {s7}][, {s8}][, {s9}][, {s10}][, {s11}])" [] fixup GAPLESS {
        #[doc = "A receiver."] d0: Reg = to(), #[doc = "A receiver."] d1: Reg = to(), #[doc = "A receiver."] d2: Reg = to(),
        #[doc = "A source."] s0: Reg = from(), #[doc = "A source."] s1: Reg = from(), #[doc = "A source."] s2: Reg = from(), #[doc = "A source."] s3: Reg = from(),
        #[doc = "A source."] s4: Reg = from(), #[doc = "A source."] s5: Reg = from(), #[doc = "A source."] s6: Reg = from(), #[doc = "A source."] s7: Reg = from(),
        #[doc = "A source."] s8: Reg = from(), #[doc = "A source."] s9: Reg = from(), #[doc = "A source."] s10: Reg = from(), #[doc = "A source."] s11: Reg = from(),
    }
    /// Sets 4 registers, each to minus one quarter of the sum of the sources. Ours: the rule of bus3 goes on.
    Bus4 = "bus4" "bus4({d0}, {d1}, {d2}, {d3}[, {s0}][, {s1}][, {s2}][, {s3}][, {s4}][, {s5}][, {s6}][, {s7}][, {s8}][, {s9}][, {s10}][, {s11}])" [] fixup GAPLESS {
        #[doc = "A receiver."] d0: Reg = to(), #[doc = "A receiver."] d1: Reg = to(), #[doc = "A receiver."] d2: Reg = to(), #[doc = "A receiver."] d3: Reg = to(),
        #[doc = "A source."] s0: Reg = from(), #[doc = "A source."] s1: Reg = from(), #[doc = "A source."] s2: Reg = from(), #[doc = "A source."] s3: Reg = from(),
        #[doc = "A source."] s4: Reg = from(), #[doc = "A source."] s5: Reg = from(), #[doc = "A source."] s6: Reg = from(), #[doc = "A source."] s7: Reg = from(),
        #[doc = "A source."] s8: Reg = from(), #[doc = "A source."] s9: Reg = from(), #[doc = "A source."] s10: Reg = from(), #[doc = "A source."] s11: Reg = from(),
    }
    /// Sets 5 registers, each to minus one fifth of the sum of the sources. Ours: the rule of bus3 goes on.
    Bus5 = "bus5" "bus5({d0}, {d1}, {d2}, {d3}, {d4}[, {s0}][, {s1}][, {s2}][, {s3}][, {s4}][, {s5}][, {s6}][, {s7}][, {s8}][, {s9}][, {s10}][, {s11}])" [] fixup GAPLESS {
        #[doc = "A receiver."] d0: Reg = to(), #[doc = "A receiver."] d1: Reg = to(), #[doc = "A receiver."] d2: Reg = to(), #[doc = "A receiver."] d3: Reg = to(), #[doc = "A receiver."] d4: Reg = to(),
        #[doc = "A source."] s0: Reg = from(), #[doc = "A source."] s1: Reg = from(), #[doc = "A source."] s2: Reg = from(), #[doc = "A source."] s3: Reg = from(),
        #[doc = "A source."] s4: Reg = from(), #[doc = "A source."] s5: Reg = from(), #[doc = "A source."] s6: Reg = from(), #[doc = "A source."] s7: Reg = from(),
        #[doc = "A source."] s8: Reg = from(), #[doc = "A source."] s9: Reg = from(), #[doc = "A source."] s10: Reg = from(), #[doc = "A source."] s11: Reg = from(),
    }
    /// Sets 6 registers, each to minus one sixth of the sum of the sources. Ours: the rule of bus3 goes on.
    Bus6 = "bus6" "bus6({d0}, {d1}, {d2}, {d3}, {d4}, {d5}[, {s0}][, {s1}][, {s2}][, {s3}][, {s4}][, {s5}][, {s6}][, {s7}][, {s8}][, {s9}][, {s10}][, {s11}])" [] fixup GAPLESS {
        #[doc = "A receiver."] d0: Reg = to(), #[doc = "A receiver."] d1: Reg = to(), #[doc = "A receiver."] d2: Reg = to(), #[doc = "A receiver."] d3: Reg = to(), #[doc = "A receiver."] d4: Reg = to(), #[doc = "A receiver."] d5: Reg = to(),
        #[doc = "A source."] s0: Reg = from(), #[doc = "A source."] s1: Reg = from(), #[doc = "A source."] s2: Reg = from(), #[doc = "A source."] s3: Reg = from(),
        #[doc = "A source."] s4: Reg = from(), #[doc = "A source."] s5: Reg = from(), #[doc = "A source."] s6: Reg = from(), #[doc = "A source."] s7: Reg = from(),
        #[doc = "A source."] s8: Reg = from(), #[doc = "A source."] s9: Reg = from(), #[doc = "A source."] s10: Reg = from(), #[doc = "A source."] s11: Reg = from(),
    }
    /// Sets FLAG where the sum of the operands is above 0, clears it elsewhere.
    Where = "where" "where({s0}[, {s1}][, {s2}])" [] fixup GAPLESS {
        /// First operand.
        s0: Reg = to(),
        /// Second operand.
        s1: Reg = from(),
        /// Third operand.
        s2: Reg = from(),
    }
    /// Sets FLAG everywhere.
    All = "all" "all()" [] {}
    /// `y` := 0.
    /// Steps: `bus(N); bus(y, N)`.
    Res = "res" "res({y})" [] {
        /// Destination.
        y: Reg = register(),
    }
    /// `y`, `z` := 0.
    /// Steps: `bus(N); bus(y, N); bus(z, N)`.
    Res2 = "res" "res({y}, {z})" [] {
        /// Destination.
        y: Reg = register(),
        /// Destination.
        z: Reg = register(),
    }
    /// `y` := `x`.
    /// Steps: `bus(N, x); bus(y, N)`.
    Mov = "mov" "mov({y}, {x})" [] {
        /// Destination.
        y: Reg = register(),
        /// Source.
        x: Reg = register(),
    }
    /// `y` := `a + b`.
    /// Steps: `bus(N, a, b); bus(y, N)`.
    Add = "add" "add({y}, {a}, {b})" [] {
        /// Destination.
        y: Reg = register(),
        /// First operand.
        a: Reg = register(),
        /// Second operand.
        b: Reg = register(),
    }
    /// `y` := `a + b + c`.
    /// Steps: `bus(N, a, b, c); bus(y, N)`.
    Add3 = "add" "add({y}, {a}, {b}, {c})" [] {
        /// Destination.
        y: Reg = register(),
        /// First operand.
        a: Reg = register(),
        /// Second operand.
        b: Reg = register(),
        /// Third operand.
        c: Reg = register(),
    }
    /// `y` := `a - b`.
    /// Steps: `bus(N, a); bus(y, N, b)`.
    Sub = "sub" "sub({y}, {a}, {b})" [] {
        /// Destination.
        y: Reg = register(),
        /// Minuend.
        a: Reg = register(),
        /// Subtrahend.
        b: Reg = register(),
    }
    /// `y` := `-x`.
    /// Steps: `bus(N); bus(y, N, x)`.
    Neg = "neg" "neg({y}, {x})" [] {
        /// Destination.
        y: Reg = register(),
        /// Source.
        x: Reg = register(),
    }
    /// `y` := the absolute value of `x`; FLAG := 1.
    /// Steps: `bus(N); bus(y, N, x); bus(N, x); where(x); bus(y, N); all()`.
    Abs = "abs" "abs({y}, {x})" [] {
        /// Destination.
        y: Reg = register(),
        /// Source.
        x: Reg = register(),
    }
    /// `y` := `x / 2`, with the error of one bus2.
    /// Steps: `bus2(y, N, x); bus(y, N)`.
    Divq = "divq" "divq({y}, {x})" [] {
        /// Destination.
        y: Reg = register(),
        /// Source.
        x: Reg = register(),
    }
    /// `y` := `x / 2`, with the error of bus2 corrected.
    /// Steps: `bus2(y, z, x); bus(N, x, z); bus(x, N, y); bus2(y, z, x); bus(y, z)`.
    Div = "div" "div({y}, {z}, {x})" [] {
        /// Destination.
        y: Reg = register(),
        /// Set to `-x / 2`.
        z: Reg = register(),
        /// Source; keeps its value.
        x: Reg = register(),
    }
    /// `y` := `x / 2`, with the error of bus2 corrected.
    /// Steps: `bus2(y, z, x); bus(N, x, z); bus(t, N, y); bus2(y, z, t); bus(y, z)`.
    DivFrom = "div" "div({y}, {z}, {t}, {x})" [] {
        /// Destination.
        y: Reg = register(),
        /// Set to `-x / 2`.
        z: Reg = register(),
        /// Set to `x`.
        t: Reg = register(),
        /// Source; may be `t`.
        x: Reg = register(),
    }
    /// `y` := `y / 2`, with the error of bus2 corrected.
    /// Steps: `bus2(z, t, y); bus(N, z, y); bus(y, N, t); bus2(z, t, y); bus(y, z)`.
    Diva = "diva" "diva({y}, {z}, {t})" [] {
        /// Source and destination.
        y: Reg = register(),
        /// Set to `-y / 2`.
        z: Reg = register(),
        /// Set to `-y / 2`.
        t: Reg = register(),
    }
    /// `y` := `x` of the neighbour in a direction.
    /// Steps: `bus(X(-d), x); bus(y, N)`.
    Movx = "movx" "movx({y}, {x}, {d})" [] {
        /// Destination.
        y: Reg = register(),
        /// Source.
        x: Reg = register(),
        /// Where the value comes from.
        d: Direction = direction(),
    }
    /// `y` := `x` of the element two steps away.
    /// Steps: `bus(X(-d), x); bus(y, X(e))`.
    Mov2x = "mov2x" "mov2x({y}, {x}, {d}, {e})" [] {
        /// Destination.
        y: Reg = register(),
        /// Source.
        x: Reg = register(),
        /// Where the value comes from.
        d: Direction = direction(),
        /// Where it goes on from there.
        e: Direction = direction(),
    }
    /// `y` := `a + b` of the neighbour in a direction.
    /// Steps: `bus(X(-d), a, b); bus(y, N)`.
    Addx = "addx" "addx({y}, {a}, {b}, {d})" [] {
        /// Destination.
        y: Reg = register(),
        /// First operand.
        a: Reg = register(),
        /// Second operand.
        b: Reg = register(),
        /// Where the value comes from.
        d: Direction = direction(),
    }
    /// `y` := `a + b` of the element two steps away.
    /// Steps: `bus(X(-d), a, b); bus(y, X(e))`.
    Add2x = "add2x" "add2x({y}, {a}, {b}, {d}, {e})" [] {
        /// Destination.
        y: Reg = register(),
        /// First operand.
        a: Reg = register(),
        /// Second operand.
        b: Reg = register(),
        /// Where the value comes from.
        d: Direction = direction(),
        /// Where it goes on from there.
        e: Direction = direction(),
    }
    /// `y` := `a` of the neighbour in a direction, minus `b`.
    /// Steps: `bus(X(-d), a); bus(y, N, b)`.
    Subx = "subx" "subx({y}, {a}, {d}, {b})" [] {
        /// Destination.
        y: Reg = register(),
        /// Minuend.
        a: Reg = register(),
        /// Where the value comes from.
        d: Direction = direction(),
        /// Subtrahend.
        b: Reg = register(),
    }
    /// `y` := `a` of the element two steps away, minus `b`.
    /// Steps: `bus(X(-d), a); bus(y, X(e), b)`.
    Sub2x = "sub2x" "sub2x({y}, {a}, {d}, {e}, {b})" [] {
        /// Destination.
        y: Reg = register(),
        /// Minuend.
        a: Reg = register(),
        /// Where the value comes from.
        d: Direction = direction(),
        /// Where it goes on from there.
        e: Direction = direction(),
        /// Subtrahend.
        b: Reg = register(),
    }
    /// Deprecated spelling of movx.
    /// Steps: `bus(X(-d), x); bus(y, N)`.
    MovDirection = "mov" "mov({y}, {x}, {d})" [] {
        /// Destination.
        y: Reg = register(),
        /// Source.
        x: Reg = register(),
        /// Where the value comes from.
        d: Direction = direction(),
    }
    /// Deprecated spelling of subx.
    /// Steps: `bus(X(-d), a); bus(y, N, b)`.
    SubDirection = "sub" "sub({y}, {a}, {d}, {b})" [] {
        /// Destination.
        y: Reg = register(),
        /// Minuend.
        a: Reg = register(),
        /// Where the value comes from.
        d: Direction = direction(),
        /// Subtrahend.
        b: Reg = register(),
    }
    /// `y` := half of PIX, and PIX is reset to 0.
    /// Ours: the documents name the instruction, not its bus steps.
    /// Steps: `bus2(y, N, PIX); bus(y, N); bus(PIX)`.
    GetImage = "get_image" "get_image({y})" [] {
        /// Destination.
        y: Reg = register(),
    }
    /// `y` := PIX, `h` := `-PIX / 2`, and PIX is reset to 0.
    /// Ours: the documents name the instruction, not its bus steps.
    /// Steps: `bus2(h, N, PIX); bus(y, N, h); bus(PIX)`.
    GetImage2 = "get_image" "get_image({y}, {h})" [] {
        /// Destination.
        y: Reg = register(),
        /// Set to minus half of PIX.
        h: Reg = register(),
    }
    /// Resets PIX to 0.
    /// Ours: the documents name the instruction, not its bus steps.
    /// Steps: `bus(PIX)`.
    Respix = "respix" "respix()" [] {}
    /// Resets PIX to 0, and `y` := PIX, the reset level.
    /// Ours: the documents name the instruction, not its bus steps.
    /// Steps: `bus(PIX); bus(N, PIX); bus(y, N)`.
    RespixRead = "respix" "respix({y})" [] {
        /// Destination.
        y: Reg = register(),
    }
    /// `y` := PIX.
    /// Ours: the documents name the instruction, not its bus steps.
    /// Steps: `bus(N, PIX); bus(y, N)`.
    Getpix = "getpix" "getpix({y})" [] {
        /// Destination.
        y: Reg = register(),
    }
    /// `y` := `PIX - r`.
    /// Ours: the documents name the instruction, not its bus steps.
    /// Steps: `bus(N, PIX); bus(y, N, r)`.
    GetpixFrom = "getpix" "getpix({y}, {r})" [] {
        /// Destination.
        y: Reg = register(),
        /// Reset level; IN or a general register.
        r: Reg = to(),
    }
    /// `y` := `PIX - r`, `h` := `-y / 2`.
    /// Ours: the documents name the instruction, not its bus steps.
    /// Steps: `bus(N, PIX); bus(y, N, r); bus2(h, N, y)`.
    Getpix2 = "getpix" "getpix({y}, {h}, {r})" [] {
        /// Destination.
        y: Reg = register(),
        /// Set to minus half of `y`.
        h: Reg = register(),
        /// Reset level; IN or a general register.
        r: Reg = to(),
    }
    /// `d` := 1 where any operand is 1.
    Or = "OR" "OR({d}, {a}, {b}[, {c}][, {e}])" [] fixup GAPLESS {
        /// Destination.
        d: Reg = bit(),
        /// First operand.
        a: Reg = bit(),
        /// Second operand.
        b: Reg = bit(),
        /// Third operand.
        c: Reg = more_bits(),
        /// Fourth operand.
        e: Reg = more_bits(),
    }
    /// `d` := 1 where no operand is 1.
    Nor = "NOR" "NOR({d}, {a}, {b}[, {c}][, {e}])" [] fixup GAPLESS {
        /// Destination.
        d: Reg = bit(),
        /// First operand.
        a: Reg = bit(),
        /// Second operand.
        b: Reg = bit(),
        /// Third operand.
        c: Reg = more_bits(),
        /// Fourth operand.
        e: Reg = more_bits(),
    }
    /// `d` := 1 where `a` is 0.
    Not = "NOT" "NOT({d}, {a})" [] {
        /// Destination.
        d: Reg = bit(),
        /// Operand.
        a: Reg = bit(),
    }
    /// `d` := `a`; `a` may be FLAG.
    Move = "MOV" "MOV({d}, {a})" [] {
        /// Destination.
        d: Reg = bit(),
        /// Operand.
        a: Reg = bit(),
    }
    /// Sets one to four registers.
    Set = "SET" "SET({a}[, {b}][, {c}][, {e}])" [] fixup GAPLESS {
        /// Register to change.
        a: Reg = bit(),
        /// Register to change.
        b: Reg = more_bits(),
        /// Register to change.
        c: Reg = more_bits(),
        /// Register to change.
        e: Reg = more_bits(),
    }
    /// Clears one to four registers.
    Clear = "CLR" "CLR({a}[, {b}][, {c}][, {e}])" [] fixup GAPLESS {
        /// Register to change.
        a: Reg = bit(),
        /// Register to change.
        b: Reg = more_bits(),
        /// Register to change.
        c: Reg = more_bits(),
        /// Register to change.
        e: Reg = more_bits(),
    }
    /// `d` := `a` and `b`.
    /// Ours: the sequences of the device may use further registers, here none changes but `d`.
    And = "AND" "AND({d}, {a}, {b})" [] {
        /// Destination.
        d: Reg = bit(),
        /// First operand.
        a: Reg = bit(),
        /// Second operand.
        b: Reg = bit(),
    }
    /// `d` := not (`a` and `b`).
    /// Ours: the sequences of the device may use further registers, here none changes but `d`.
    Nand = "NAND" "NAND({d}, {a}, {b})" [] {
        /// Destination.
        d: Reg = bit(),
        /// First operand.
        a: Reg = bit(),
        /// Second operand.
        b: Reg = bit(),
    }
    /// `d` := 1 where the operands differ.
    /// Ours: the sequences of the device may use further registers, here none changes but `d`.
    Xor = "XOR" "XOR({d}, {a}, {b})" [] {
        /// Destination.
        d: Reg = bit(),
        /// First operand.
        a: Reg = bit(),
        /// Second operand.
        b: Reg = bit(),
    }
    /// `d` := `b` or not `a`.
    /// Ours: the sequences of the device may use further registers, here none changes but `d`.
    Imp = "IMP" "IMP({d}, {a}, {b})" [] {
        /// Destination.
        d: Reg = bit(),
        /// First operand.
        a: Reg = bit(),
        /// Second operand.
        b: Reg = bit(),
    }
    /// `d` := `a` where `s` is 1, else `b`.
    /// Ours: the sequences of the device may use further registers, here none changes but `d`.
    Mux = "MUX" "MUX({d}, {s}, {a}, {b})" [] {
        /// Destination.
        d: Reg = bit(),
        /// Decides.
        s: Reg = bit(),
        /// Taken where `s` is 1.
        a: Reg = bit(),
        /// Taken where `s` is 0.
        b: Reg = bit(),
    }
    /// `d` := 1 where `a` is 1 in any neighbour whose direction register is 1 here; 0 beyond the edge.
    Dnews0 = "DNEWS0" "DNEWS0({d}, {a})" [] {
        /// Destination.
        d: Reg = bit(),
        /// Operand.
        a: Reg = bit(),
    }
    /// The same as DNEWS0, but 1 beyond the edge.
    Dnews1 = "DNEWS1" "DNEWS1({d}, {a})" [] {
        /// Destination.
        d: Reg = bit(),
        /// Operand.
        a: Reg = bit(),
    }
    /// Keeps the charge of a register; its value stays.
    Refresh = "REFRESH" "REFRESH({a})" [] {
        /// Operand.
        a: Reg = bit(),
    }
    /// FLAG := `a`.
    WhereBit = "WHERE" "WHERE({a})" [] {
        /// Operand.
        a: Reg = bit(),
    }
    /// FLAG := 1.
    AllBits = "ALL" "ALL()" [] {}
    /// `d` := 1 where row and column, but for the bits of `rx` and `cx`, are `r` and `c`, else 0.
    LoadPattern = "scamp5_load_pattern" "scamp5_load_pattern({d}, {r}, {c}, {rx}, {cx})" [] {
        /// Destination.
        d: Reg = bit(),
        /// Row, from the top.
        r: u8 = byte(),
        /// Column, from the right.
        c: u8 = byte(),
        /// Bits of the row that do not matter.
        rx: u8 = byte(),
        /// Bits of the column that do not matter.
        cx: u8 = byte(),
    }
    /// SELECT := 1 where row and column, but for the bits of `rx` and `cx`, are `r` and `c`, else 0.
    SelectPattern = "scamp5_select_pattern" "scamp5_select_pattern({r}, {c}, {rx}, {cx})" [] {
        /// Row, from the top.
        r: u8 = byte(),
        /// Column, from the right.
        c: u8 = byte(),
        /// Bits of the row that do not matter.
        rx: u8 = byte(),
        /// Bits of the column that do not matter.
        cx: u8 = byte(),
    }
}
