//! Names that both languages take, made from whatever a user calls a file.

use super::netlist::Name;

/// Longest name of a module; tools add endings to it.
const MAX_NAME: usize = 64;

/// Reserved words of Verilog, SystemVerilog and VHDL (2008 and 2019), names of VHDL that the modules
/// use, which a module of the same name would hide, and names that they use inside.
const RESERVED: &str = "\
    abs accept_on access after alias all always always_comb always_ff always_latch and \
    architecture array assert assign assume assume_guarantee attribute automatic before begin bind \
    bins binsof bit block body boolean break buf buffer bufif0 bufif1 bus byte case casex casez \
    cell chandle character checker class clk clocking cmos component config configuration const \
    constant constraint context continue cover covergroup coverpoint cross deassign default \
    defparam design disable disconnect dist do downto edge else elsif end endcase endchecker \
    endclass endclocking endconfig endfunction endgenerate endgroup endinterface endmodule \
    endpackage endprimitive endprogram endproperty endsequence endspecify endtable endtask entity \
    enum event eventually exit expect export extends extern fairness false file final first_match \
    flag for force foreach forever fork forkjoin function generate generic genvar global group \
    guarded highz0 highz1 ieee if ifdef iff ifndef ifnone ignore_bins illegal_bins implements \
    implies import impure in incdir include inertial initial inout inp input inside instance int \
    integer interconnect interface intersect is join join_any join_none label large let liblist \
    library line linkage literal local localparam logic longint loop macromodule map matches \
    medium mod model_inp model_out modport module nand natural negedge nettype new next nexttime \
    nmos nor noshowcancelled not notif0 notif1 now null numeric_std of on open or others out \
    output package packed parameter pmos port posedge positive postponed primitive priority \
    private procedure process program property protected pull0 pull1 pulldown pullup \
    pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase randsequence range rcmos real \
    realtime record ref reg register reject reject_on release rem rep repeat report resize \
    restrict restrict_guarantee return rising_edge rnmos rol ror rpmos rtran rtranif0 rtranif1 \
    s_always s_eventually s_nexttime s_until s_until_with scalared sel select sequence severity \
    shared shortint shortreal showcancelled signal signed sla sll small soft solve specify \
    specparam sra srl standard static std std_logic std_logic_1164 std_logic_vector std_ulogic \
    string strong strong0 strong1 struct subtype super supply supply0 supply1 sync_accept_on \
    sync_reject_on table tagged task text then this throughout time timeprecision timeunit to \
    to_integer tran tranif0 tranif1 transport tri tri0 tri1 triand trior trireg true type typedef \
    unaffected union unique unique0 units unsigned until until_with untyped use uwire var variable \
    vectored view virtual vmode void vpkg vprop vunit wait wait_order wand weak weak0 weak1 when \
    while wildcard wire with within wor work xnor xor";

/// A name of a module that Verilog and VHDL take: letters, digits and single underscores,
/// beginning with a letter; no reserved word.
pub fn module_name(wanted: &str) -> String {
    let mut name = String::new();
    for character in wanted.chars() {
        let plain = if character.is_ascii_alphanumeric() { character } else { '_' };
        if plain != '_' || !(name.is_empty() || name.ends_with('_')) {
            name.push(plain);
        }
        if name.len() == MAX_NAME {
            break;
        }
    }
    let name = name.trim_end_matches('_');
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic());
    let lower = name.to_ascii_lowercase();
    let taken = RESERVED.split(' ').any(|word| word == lower) || is_net(name);
    match starts_well && !taken {
        true => name.to_owned(),
        false if name.is_empty() => "dais".to_owned(),
        false => format!("dais_{name}"),
    }
}

/// True for what nets and registers are called.
fn is_net(name: &str) -> bool {
    let digits = name.strip_prefix(['v', 'y', 'V', 'Y']).or_else(|| name.strip_prefix("rom"));
    digits.is_some_and(|digits| digits.starts_with(|first: char| first.is_ascii_digit()))
}

/// What a net is called in both languages.
pub(super) fn net_name(name: Name) -> String {
    match name {
        Name::Port => "inp".to_owned(),
        Name::Slot(slot) => format!("v{slot}"),
        Name::Step(slot, step) => format!("v{slot}_{step}"),
        Name::Output(output, step) => format!("y{output}_{step}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_legal() {
        for (wanted, name) in [
            ("digits", "digits"),
            ("my model-v2", "my_model_v2"),
            ("__a__b__", "a_b"),
            ("2nd", "dais_2nd"),
            ("Signal", "dais_Signal"),
            ("model_inp", "dais_model_inp"),
            ("v12", "dais_v12"),
            ("endfunction", "dais_endfunction"),
            ("always_ff", "dais_always_ff"),
            ("vunit", "dais_vunit"),
            ("Std_Logic_Vector", "dais_Std_Logic_Vector"),
            ("", "dais"),
            ("../../é$(x)`", "x"),
            ("\n", "dais"),
        ] {
            assert_eq!(module_name(wanted), name, "{wanted:?}");
        }
        assert_eq!(module_name(&"a".repeat(1000)).len(), MAX_NAME);
        let words: Vec<&str> = RESERVED.split(' ').collect();
        assert!(words.is_sorted() && words.len() > 350);
    }
}
