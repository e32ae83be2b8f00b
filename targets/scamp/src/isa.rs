//! The instruction table, and the words that all instructions share.
//!
//! Facts: `scamp5d`, `cain` (`docs/bibliography.md`). There is no machine code: a program reaches
//! the device as C++ source. A row says what kind of instruction it is, and of a macro its bus steps
//! and what they come to ([`crate::expand`], [`crate::meaning`]).

mod operand;
mod view;

pub use operand::{Direction, MAX_NAME, Reg};
pub use view::{Bus, Class, Facts, Gate, Logic};

pub(crate) use operand::register;
use operand::{GAPLESS, bit, byte, direction, from, level, more_bits, to};
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
    facts Facts;

    /// The following instructions are for the array; without effect.
    KernelBegin = "scamp5_kernel_begin" "scamp5_kernel_begin()" [] is [Class::Frame.writes(0)] {}
    /// The following statements are for the controller; without effect.
    KernelEnd = "scamp5_kernel_end" "scamp5_kernel_end()" [] is [Class::Frame.writes(0)] {}
    /// Sets `y` to `value / 128` in every processing element; for emulators only.
    Input = "input" "input({y}, {value})" [] is [Class::Emulator.writes(1)] {
        /// Destination.
        y: Reg = register(),
        /// Numerator over 128.
        value: i32 = Operand::free(Kind::Signed).within(-(1 << 31), (1 << 31) - 1),
    }
    /// Sets `d0` to minus the sum of the sources; to 0 without sources. The machine limits the number
    /// of sources: `scamp5` has 4.
    Bus = "bus" "bus({d0}[, {s0}][, {s1}][, {s2}][, {s3}][, {s4}][, {s5}][, {s6}][, {s7}][, {s8}][, {s9}][, {s10}][, {s11}])" []
        is [Class::Bus.writes(1)] fixup GAPLESS {
        #[doc = "A receiver."] d0: Reg = to(),
        #[doc = "A source."] s0: Reg = from(), #[doc = "A source."] s1: Reg = from(), #[doc = "A source."] s2: Reg = from(), #[doc = "A source."] s3: Reg = from(),
        #[doc = "A source."] s4: Reg = from(), #[doc = "A source."] s5: Reg = from(), #[doc = "A source."] s6: Reg = from(), #[doc = "A source."] s7: Reg = from(),
        #[doc = "A source."] s8: Reg = from(), #[doc = "A source."] s9: Reg = from(), #[doc = "A source."] s10: Reg = from(), #[doc = "A source."] s11: Reg = from(),
    }
    /// Sets 2 registers, each to minus one half of the sum of the sources; `scamp5` has 2 of these.
    Bus2 = "bus2" "bus2({d0}, {d1}[, {s0}][, {s1}][, {s2}][, {s3}][, {s4}][, {s5}][, {s6}][, {s7}][, {s8}][, {s9}][, {s10}][, {s11}])" []
        is [Class::Bus.writes(2)] fixup GAPLESS {
        #[doc = "A receiver."] d0: Reg = to(), #[doc = "A receiver."] d1: Reg = to(),
        #[doc = "A source."] s0: Reg = from(), #[doc = "A source."] s1: Reg = from(), #[doc = "A source."] s2: Reg = from(), #[doc = "A source."] s3: Reg = from(),
        #[doc = "A source."] s4: Reg = from(), #[doc = "A source."] s5: Reg = from(), #[doc = "A source."] s6: Reg = from(), #[doc = "A source."] s7: Reg = from(),
        #[doc = "A source."] s8: Reg = from(), #[doc = "A source."] s9: Reg = from(), #[doc = "A source."] s10: Reg = from(), #[doc = "A source."] s11: Reg = from(),
    }
    /// Sets 3 registers, each to minus one third of the sum of the sources; `scamp5` has 1 of these.
    Bus3 = "bus3" "bus3({d0}, {d1}, {d2}[, {s0}][, {s1}][, {s2}][, {s3}][, {s4}][, {s5}][, {s6}][, {s7}][, {s8}][, {s9}][, {s10}][, {s11}])" []
        is [Class::Bus.writes(3)] fixup GAPLESS {
        #[doc = "A receiver."] d0: Reg = to(), #[doc = "A receiver."] d1: Reg = to(), #[doc = "A receiver."] d2: Reg = to(),
        #[doc = "A source."] s0: Reg = from(), #[doc = "A source."] s1: Reg = from(), #[doc = "A source."] s2: Reg = from(), #[doc = "A source."] s3: Reg = from(),
        #[doc = "A source."] s4: Reg = from(), #[doc = "A source."] s5: Reg = from(), #[doc = "A source."] s6: Reg = from(), #[doc = "A source."] s7: Reg = from(),
        #[doc = "A source."] s8: Reg = from(), #[doc = "A source."] s9: Reg = from(), #[doc = "A source."] s10: Reg = from(), #[doc = "A source."] s11: Reg = from(),
    }
    /// Sets 4 registers, each to minus one quarter of the sum of the sources. Ours: the rule of bus3 goes on.
    Bus4 = "bus4" "bus4({d0}, {d1}, {d2}, {d3}[, {s0}][, {s1}][, {s2}][, {s3}][, {s4}][, {s5}][, {s6}][, {s7}][, {s8}][, {s9}][, {s10}][, {s11}])" []
        is [Class::Bus.writes(4)] fixup GAPLESS {
        #[doc = "A receiver."] d0: Reg = to(), #[doc = "A receiver."] d1: Reg = to(), #[doc = "A receiver."] d2: Reg = to(), #[doc = "A receiver."] d3: Reg = to(),
        #[doc = "A source."] s0: Reg = from(), #[doc = "A source."] s1: Reg = from(), #[doc = "A source."] s2: Reg = from(), #[doc = "A source."] s3: Reg = from(),
        #[doc = "A source."] s4: Reg = from(), #[doc = "A source."] s5: Reg = from(), #[doc = "A source."] s6: Reg = from(), #[doc = "A source."] s7: Reg = from(),
        #[doc = "A source."] s8: Reg = from(), #[doc = "A source."] s9: Reg = from(), #[doc = "A source."] s10: Reg = from(), #[doc = "A source."] s11: Reg = from(),
    }
    /// Sets 5 registers, each to minus one fifth of the sum of the sources. Ours: the rule of bus3 goes on.
    Bus5 = "bus5" "bus5({d0}, {d1}, {d2}, {d3}, {d4}[, {s0}][, {s1}][, {s2}][, {s3}][, {s4}][, {s5}][, {s6}][, {s7}][, {s8}][, {s9}][, {s10}][, {s11}])" []
        is [Class::Bus.writes(5)] fixup GAPLESS {
        #[doc = "A receiver."] d0: Reg = to(), #[doc = "A receiver."] d1: Reg = to(), #[doc = "A receiver."] d2: Reg = to(), #[doc = "A receiver."] d3: Reg = to(), #[doc = "A receiver."] d4: Reg = to(),
        #[doc = "A source."] s0: Reg = from(), #[doc = "A source."] s1: Reg = from(), #[doc = "A source."] s2: Reg = from(), #[doc = "A source."] s3: Reg = from(),
        #[doc = "A source."] s4: Reg = from(), #[doc = "A source."] s5: Reg = from(), #[doc = "A source."] s6: Reg = from(), #[doc = "A source."] s7: Reg = from(),
        #[doc = "A source."] s8: Reg = from(), #[doc = "A source."] s9: Reg = from(), #[doc = "A source."] s10: Reg = from(), #[doc = "A source."] s11: Reg = from(),
    }
    /// Sets 6 registers, each to minus one sixth of the sum of the sources. Ours: the rule of bus3 goes on.
    Bus6 = "bus6" "bus6({d0}, {d1}, {d2}, {d3}, {d4}, {d5}[, {s0}][, {s1}][, {s2}][, {s3}][, {s4}][, {s5}][, {s6}][, {s7}][, {s8}][, {s9}][, {s10}][, {s11}])" []
        is [Class::Bus.writes(6)] fixup GAPLESS {
        #[doc = "A receiver."] d0: Reg = to(), #[doc = "A receiver."] d1: Reg = to(), #[doc = "A receiver."] d2: Reg = to(), #[doc = "A receiver."] d3: Reg = to(), #[doc = "A receiver."] d4: Reg = to(), #[doc = "A receiver."] d5: Reg = to(),
        #[doc = "A source."] s0: Reg = from(), #[doc = "A source."] s1: Reg = from(), #[doc = "A source."] s2: Reg = from(), #[doc = "A source."] s3: Reg = from(),
        #[doc = "A source."] s4: Reg = from(), #[doc = "A source."] s5: Reg = from(), #[doc = "A source."] s6: Reg = from(), #[doc = "A source."] s7: Reg = from(),
        #[doc = "A source."] s8: Reg = from(), #[doc = "A source."] s9: Reg = from(), #[doc = "A source."] s10: Reg = from(), #[doc = "A source."] s11: Reg = from(),
    }
    /// Sets FLAG where the sum of the operands is above 0, clears it elsewhere.
    Where = "where" "where({s0}[, {s1}][, {s2}])" [] is [Class::Condition.writes(0)] fixup GAPLESS {
        /// First operand.
        s0: Reg = to(),
        /// Second operand.
        s1: Reg = from(),
        /// Third operand.
        s2: Reg = from(),
    }
    /// Sets FLAG everywhere.
    All = "all" "all()" [] is [Class::All.writes(0)] {}
    /// `y` := 0.
    Res = "res" "res({y})" []
        is [Class::Macro.means(&["N = 0", "y = 0"])] steps ["bus(N)", "bus(y, N)"] {
        /// Destination.
        y: Reg = register(),
    }
    /// `y`, `z` := 0.
    Res2 = "res" "res({y}, {z})" []
        is [Class::Macro.means(&["N = 0", "y = 0", "z = 0"])] steps ["bus(N)", "bus(y, N)", "bus(z, N)"] {
        /// Destination.
        y: Reg = register(),
        /// Destination.
        z: Reg = register(),
    }
    /// `y` := `x`.
    Mov = "mov" "mov({y}, {x})" []
        is [Class::Macro.means(&["N = -x", "y = x"])] steps ["bus(N, x)", "bus(y, N)"] {
        /// Destination.
        y: Reg = register(),
        /// Source.
        x: Reg = register(),
    }
    /// `y` := `a + b`.
    Add = "add" "add({y}, {a}, {b})" []
        is [Class::Macro.means(&["N = -a - b", "y = a + b"])] steps ["bus(N, a, b)", "bus(y, N)"] {
        /// Destination.
        y: Reg = register(),
        /// First operand.
        a: Reg = register(),
        /// Second operand.
        b: Reg = register(),
    }
    /// `y` := `a + b + c`.
    Add3 = "add" "add({y}, {a}, {b}, {c})" []
        is [Class::Macro.means(&["N = -a - b - c", "y = a + b + c"])] steps ["bus(N, a, b, c)", "bus(y, N)"] {
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
    Sub = "sub" "sub({y}, {a}, {b})" []
        is [Class::Macro.means(&["N = -a", "y = a - b"])] steps ["bus(N, a)", "bus(y, N, b)"] {
        /// Destination.
        y: Reg = register(),
        /// Minuend.
        a: Reg = register(),
        /// Subtrahend.
        b: Reg = register(),
    }
    /// `y` := `-x`.
    Neg = "neg" "neg({y}, {x})" []
        is [Class::Macro.means(&["N = 0", "y = -x"])] steps ["bus(N)", "bus(y, N, x)"] {
        /// Destination.
        y: Reg = register(),
        /// Source.
        x: Reg = register(),
    }
    /// `y` := the absolute value of `x`; FLAG := 1.
    Abs = "abs" "abs({y}, {x})" []
        is [Class::Macro.means(&[])] steps ["bus(N)", "bus(y, N, x)", "bus(N, x)", "where(x)", "bus(y, N)", "all()"] {
        /// Destination.
        y: Reg = register(),
        /// Source.
        x: Reg = register(),
    }
    /// `y` := `x / 2`, with the error of one bus2.
    Divq = "divq" "divq({y}, {x})" []
        is [Class::Macro.means(&["N = -x/2", "y = x/2"])] steps ["bus2(y, N, x)", "bus(y, N)"] {
        /// Destination.
        y: Reg = register(),
        /// Source.
        x: Reg = register(),
    }
    /// `y` := `x / 2`, with the error of bus2 corrected.
    Div = "div" "div({y}, {z}, {x})" []
        is [Class::Macro.means(&["N = -x/2", "z = -x/2", "x = x", "y = x/2"])] steps ["bus2(y, z, x)", "bus(N, x, z)", "bus(x, N, y)", "bus2(y, z, x)", "bus(y, z)"] {
        /// Destination.
        y: Reg = register(),
        /// Set to `-x / 2`.
        z: Reg = register(),
        /// Source; keeps its value.
        x: Reg = register(),
    }
    /// `y` := `x / 2`, with the error of bus2 corrected.
    DivFrom = "div" "div({y}, {z}, {t}, {x})" []
        is [Class::Macro.means(&["N = -x/2", "z = -x/2", "t = x", "y = x/2"])] steps ["bus2(y, z, x)", "bus(N, x, z)", "bus(t, N, y)", "bus2(y, z, t)", "bus(y, z)"] {
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
    Diva = "diva" "diva({y}, {z}, {t})" []
        is [Class::Macro.means(&["N = -y/2", "z = -y/2", "t = -y/2", "y = y/2"])] steps ["bus2(z, t, y)", "bus(N, z, y)", "bus(y, N, t)", "bus2(z, t, y)", "bus(y, z)"] {
        /// Source and destination.
        y: Reg = register(),
        /// Set to `-y / 2`.
        z: Reg = register(),
        /// Set to `-y / 2`.
        t: Reg = register(),
    }
    /// `y` := `x` of the neighbour in a direction.
    Movx = "movx" "movx({y}, {x}, {d})" []
        is [Class::Macro.means(&["N = -x@d", "y = x@d"])] steps ["bus(X(-d), x)", "bus(y, N)"] {
        /// Destination.
        y: Reg = register(),
        /// Source.
        x: Reg = register(),
        /// Where the value comes from.
        d: Direction = direction(),
    }
    /// `y` := `x` of the element two steps away.
    Mov2x = "mov2x" "mov2x({y}, {x}, {d}, {e})" []
        is [Class::Macro.means(&["N = -x@d", "y = x@d@e"])] steps ["bus(X(-d), x)", "bus(y, X(e))"] {
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
    Addx = "addx" "addx({y}, {a}, {b}, {d})" []
        is [Class::Macro.means(&["N = -a@d - b@d", "y = a@d + b@d"])] steps ["bus(X(-d), a, b)", "bus(y, N)"] {
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
    Add2x = "add2x" "add2x({y}, {a}, {b}, {d}, {e})" []
        is [Class::Macro.means(&["N = -a@d - b@d", "y = a@d@e + b@d@e"])] steps ["bus(X(-d), a, b)", "bus(y, X(e))"] {
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
    Subx = "subx" "subx({y}, {a}, {d}, {b})" []
        is [Class::Macro.means(&["N = -a@d", "y = a@d - b"])] steps ["bus(X(-d), a)", "bus(y, N, b)"] {
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
    Sub2x = "sub2x" "sub2x({y}, {a}, {d}, {e}, {b})" []
        is [Class::Macro.means(&["N = -a@d", "y = a@d@e - b"])] steps ["bus(X(-d), a)", "bus(y, X(e), b)"] {
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
    MovDirection = "mov" "mov({y}, {x}, {d})" []
        is [Class::Macro.means(&["N = -x@d", "y = x@d"])] steps ["bus(X(-d), x)", "bus(y, N)"] {
        /// Destination.
        y: Reg = register(),
        /// Source.
        x: Reg = register(),
        /// Where the value comes from.
        d: Direction = direction(),
    }
    /// Deprecated spelling of subx.
    SubDirection = "sub" "sub({y}, {a}, {d}, {b})" []
        is [Class::Macro.means(&["N = -a@d", "y = a@d - b"])] steps ["bus(X(-d), a)", "bus(y, N, b)"] {
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
    GetImage = "get_image" "get_image({y})" []
        is [Class::Sensor.means(&["N = -PIX/2", "PIX = 0", "y = PIX/2"])] steps ["bus2(y, N, PIX)", "bus(y, N)", "bus(PIX)"] {
        /// Destination.
        y: Reg = register(),
    }
    /// `y` := PIX, `h` := `-PIX / 2`, and PIX is reset to 0.
    /// Ours: the documents name the instruction, not its bus steps.
    GetImage2 = "get_image" "get_image({y}, {h})" []
        is [Class::Sensor.means(&["N = -PIX/2", "PIX = 0", "h = -PIX/2", "y = PIX"])] steps ["bus2(h, N, PIX)", "bus(y, N, h)", "bus(PIX)"] {
        /// Destination.
        y: Reg = register(),
        /// Set to minus half of PIX.
        h: Reg = register(),
    }
    /// Resets PIX to 0.
    /// Ours: the documents name the instruction, not its bus steps.
    Respix = "respix" "respix()" [] is [Class::Sensor.means(&["PIX = 0"])] steps ["bus(PIX)"] {}
    /// Resets PIX to 0, and `y` := PIX, the reset level.
    /// Ours: the documents name the instruction, not its bus steps.
    RespixRead = "respix" "respix({y})" []
        is [Class::Sensor.means(&["PIX = 0", "N = 0", "y = 0"])] steps ["bus(PIX)", "bus(N, PIX)", "bus(y, N)"] {
        /// Destination.
        y: Reg = register(),
    }
    /// `y` := PIX.
    /// Ours: the documents name the instruction, not its bus steps.
    Getpix = "getpix" "getpix({y})" []
        is [Class::Sensor.means(&["N = -PIX", "y = PIX"])] steps ["bus(N, PIX)", "bus(y, N)"] {
        /// Destination.
        y: Reg = register(),
    }
    /// `y` := `PIX - r`.
    /// Ours: the documents name the instruction, not its bus steps.
    GetpixFrom = "getpix" "getpix({y}, {r})" []
        is [Class::Sensor.means(&["N = -PIX", "y = PIX - r"])] steps ["bus(N, PIX)", "bus(y, N, r)"] {
        /// Destination.
        y: Reg = register(),
        /// Reset level; IN or a general register.
        r: Reg = to(),
    }
    /// `y` := `PIX - r`, `h` := `-y / 2`.
    /// Ours: the documents name the instruction, not its bus steps.
    Getpix2 = "getpix" "getpix({y}, {h}, {r})" []
        is [Class::Sensor.means(&["N = -PIX/2 + r/2", "h = -PIX/2 + r/2", "y = PIX - r"])] steps ["bus(N, PIX)", "bus(y, N, r)", "bus2(h, N, y)"] {
        /// Destination.
        y: Reg = register(),
        /// Set to minus half of `y`.
        h: Reg = register(),
        /// Reset level; IN or a general register.
        r: Reg = to(),
    }
    /// `d` := 1 where any operand is 1.
    Or = "OR" "OR({d}, {a}, {b}[, {c}][, {e}])" []
        is [Class::Digital(Gate::Or).writes(1)] fixup GAPLESS {
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
    Nor = "NOR" "NOR({d}, {a}, {b}[, {c}][, {e}])" []
        is [Class::Digital(Gate::Nor).writes(1)] fixup GAPLESS {
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
    Not = "NOT" "NOT({d}, {a})" [] is [Class::Digital(Gate::Not).writes(1)] {
        /// Destination.
        d: Reg = bit(),
        /// Operand.
        a: Reg = bit(),
    }
    /// `d` := `a`; `a` may be FLAG.
    Move = "MOV" "MOV({d}, {a})" [] is [Class::Digital(Gate::Copy).writes(1)] {
        /// Destination.
        d: Reg = bit(),
        /// Operand.
        a: Reg = bit(),
    }
    /// Sets one to four registers.
    Set = "SET" "SET({a}[, {b}][, {c}][, {e}])" []
        is [Class::Digital(Gate::Constant(true)).writes(4)] fixup GAPLESS {
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
    Clear = "CLR" "CLR({a}[, {b}][, {c}][, {e}])" []
        is [Class::Digital(Gate::Constant(false)).writes(4)] fixup GAPLESS {
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
    And = "AND" "AND({d}, {a}, {b})" [] is [Class::Digital(Gate::And).writes(1)] {
        /// Destination.
        d: Reg = bit(),
        /// First operand.
        a: Reg = bit(),
        /// Second operand.
        b: Reg = bit(),
    }
    /// `d` := not (`a` and `b`).
    /// Ours: the sequences of the device may use further registers, here none changes but `d`.
    Nand = "NAND" "NAND({d}, {a}, {b})" [] is [Class::Digital(Gate::Nand).writes(1)] {
        /// Destination.
        d: Reg = bit(),
        /// First operand.
        a: Reg = bit(),
        /// Second operand.
        b: Reg = bit(),
    }
    /// `d` := 1 where the operands differ.
    /// Ours: the sequences of the device may use further registers, here none changes but `d`.
    Xor = "XOR" "XOR({d}, {a}, {b})" [] is [Class::Digital(Gate::Xor).writes(1)] {
        /// Destination.
        d: Reg = bit(),
        /// First operand.
        a: Reg = bit(),
        /// Second operand.
        b: Reg = bit(),
    }
    /// `d` := `b` or not `a`.
    /// Ours: the sequences of the device may use further registers, here none changes but `d`.
    Imp = "IMP" "IMP({d}, {a}, {b})" [] is [Class::Digital(Gate::Imply).writes(1)] {
        /// Destination.
        d: Reg = bit(),
        /// First operand.
        a: Reg = bit(),
        /// Second operand.
        b: Reg = bit(),
    }
    /// `d` := `a` where `s` is 1, else `b`.
    /// Ours: the sequences of the device may use further registers, here none changes but `d`.
    Mux = "MUX" "MUX({d}, {s}, {a}, {b})" [] is [Class::Digital(Gate::Mux).writes(1)] {
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
    Dnews0 = "DNEWS0" "DNEWS0({d}, {a})" []
        is [Class::Digital(Gate::Neighbours { beyond: false }).writes(1)] {
        /// Destination.
        d: Reg = bit(),
        /// Operand.
        a: Reg = bit(),
    }
    /// The same as DNEWS0, but 1 beyond the edge.
    Dnews1 = "DNEWS1" "DNEWS1({d}, {a})" []
        is [Class::Digital(Gate::Neighbours { beyond: true }).writes(1)] {
        /// Destination.
        d: Reg = bit(),
        /// Operand.
        a: Reg = bit(),
    }
    /// Keeps the charge of a register; its value stays.
    Refresh = "REFRESH" "REFRESH({a})" [] is [Class::Digital(Gate::Refresh).writes(0)] {
        /// Operand.
        a: Reg = bit(),
    }
    /// FLAG := `a`.
    WhereBit = "WHERE" "WHERE({a})" [] is [Class::Digital(Gate::Where).writes(0)] {
        /// Operand.
        a: Reg = bit(),
    }
    /// FLAG := 1.
    AllBits = "ALL" "ALL()" [] is [Class::Digital(Gate::All).writes(0)] {}
    /// `d` := 1 where row and column, but for the bits of `rx` and `cx`, are `r` and `c`, else 0.
    LoadPattern = "scamp5_load_pattern" "scamp5_load_pattern({d}, {r}, {c}, {rx}, {cx})" []
        is [Class::Pattern.writes(1)] {
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
    SelectPattern = "scamp5_select_pattern" "scamp5_select_pattern({r}, {c}, {rx}, {cx})" []
        is [Class::Pattern.writes(0)] {
        /// Row, from the top.
        r: u8 = byte(),
        /// Column, from the right.
        c: u8 = byte(),
        /// Bits of the row that do not matter.
        rx: u8 = byte(),
        /// Bits of the column that do not matter.
        cx: u8 = byte(),
    }
    /// IN := `v`, in the units of values: 8-bit read-out gives `v + 128`.
    /// Ours: that, and that it is outside of a kernel, as patterns are.
    LoadIn = "scamp5_load_in" "scamp5_load_in({v})" [] is [Class::Load.writes(0)] {
        /// What IN holds from now on.
        v: i8 = level(),
    }
    /// IN := `v`, and `y` := `v` in the elements with FLAG.
    /// Ours: the documents name the instruction, not its bus steps.
    LoadInto = "scamp5_load_in" "scamp5_load_in({y}, {v})" []
        is [Class::LoadMacro.means(&["IN = v", "N = -v", "y = v"])] steps ["scamp5_load_in(v)", "bus(N, IN)", "bus(y, N)"] {
        /// Destination.
        y: Reg = register(),
        /// What IN holds from now on.
        v: i8 = level(),
    }
}
