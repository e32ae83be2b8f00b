//! The texts below are our own, in the forms of the tools; they are no reports of real runs.

use super::*;
use proptest::prelude::*;

const UTILISATION: &str = "\
| Tool Version : Vivado v.2023.1
| Design       : digits
+----------------------------+-------+-------+------------+-----------+-------+
|          Site Type         |  Used | Fixed | Prohibited | Available | Util% |
+----------------------------+-------+-------+------------+-----------+-------+
| CLB LUTs*                  | 12345 |     0 |          0 |   1728000 |  0.71 |
|   LUT as Logic             | 12300 |     0 |          0 |   1728000 |  0.71 |
| CLB Registers              |   678 |     0 |          0 |   3456000 |  0.02 |
| Block RAM Tile             |   0.5 |     0 |          0 |      2688 |  0.02 |
| DSPs                       |     3 |     0 |          0 |     12288 |  0.02 |
| CLB LUTs                   |    99 |
";

const TIMING: &str = "\
| Design            : digits
| Design Timing Summary
| ---------------------
    WNS(ns)      TNS(ns)  TNS Failing Endpoints  TNS Total Endpoints
    -------      -------  ---------------------  -------------------
      1.000        0.000                      0                 1234

| Clock Summary
Clock  Waveform(ns)       Period(ns)      Frequency(MHz)
-----  ------------       ----------      --------------
clk    {0.000 2.500}      5.000           200.000

Clock             WNS(ns)      TNS(ns)
clk                 7.000        0.000
";

const FIT: &str = "\
; Fitter Summary ;
; Top-level Entity Name           ; digits                    ;
; Logic utilization (in ALMs)     ; 1,234 / 427,200 ( < 1 % ) ;
; Total registers                 ; 2345                      ;
; Total RAM Blocks                ; 0 / 2,713 ( 0 % )         ;
; Total DSP Blocks                ; 5 / 1,518 ( < 1 % )       ;
";

const SUMMARY: &str = "\
Fitter Status : Successful - Sat Nov 28 12:00:00 2026
Top-level Entity Name : digits
Total combinational functions : 400 / 6,272 ( 6 % )
Total registers : 17
";

const STA: &str = "\
; Slow 900mV 100C Model Fmax Summary ;
; Fmax       ; Restricted Fmax ; Clock Name ; Note ;
; 312.5 MHz  ; 312.5 MHz       ; clk        ;      ;
; Slow 900mV 0C Model Fmax Summary ;
; Fmax       ; Restricted Fmax ; Clock Name ; Note ;
; 300.25 MHz ; 300.25 MHz      ; clk        ;      ;
; Slow 900mV 100C Model Setup Summary ;
; Clock ; Slack ; End Point TNS ;
; clk   ; 1.800 ; 0.000         ;
; io    ; -0.25 ; -3.000        ;
; Slow 900mV 100C Model Hold Summary ;
; Clock ; Slack ; End Point TNS ;
; clk   ; -9.00 ; 0.000         ;
";

fn figures(name: &str, text: &str) -> Figures {
    parse(name, text.as_bytes()).unwrap().figures
}

#[test]
fn figures_are_found() {
    let none = Figures::default();
    let found = parse("a/utilization.rpt", UTILISATION.as_bytes()).unwrap();
    assert_eq!((found.tool, found.design.as_deref()), (Tool::Vivado, Some("digits")));
    let expected =
        Figures { lut: Some(12345.0), ff: Some(678.0), dsp: Some(3.0), bram: Some(0.5), ..none };
    assert_eq!(found.figures, expected);
    let expected = Figures { wns: Some(1.0), fmax: Some(250.0), ..none };
    assert_eq!(figures("timing_summary.rpt", TIMING), expected);
    let expected =
        Figures { alm: Some(1234.0), ff: Some(2345.0), dsp: Some(5.0), bram: Some(0.0), ..none };
    assert_eq!(figures("digits.fit.rpt", FIT), expected);
    let expected = Figures { lut: Some(400.0), ff: Some(17.0), ..none };
    assert_eq!(figures("digits.fit.summary", SUMMARY), expected);
    let expected = Figures { fmax: Some(300.25), wns: Some(-0.25), ..none };
    assert_eq!(figures("digits.sta.rpt", STA), expected);
}

#[test]
fn several_clocks_have_no_frequency_and_none_no_slack() {
    let two = TIMING.replace("clk    {0.000", "io {0.000 1.000} 2.000 500.000\nclk    {0.000");
    assert_eq!(figures("timing.rpt", &two).fmax, None);
    let free = TIMING.replace("      1.000        0.000", "         NA           NA");
    let problem = parse("timing.rpt", free.as_bytes()).unwrap_err();
    assert!(problem.to_string().contains("nothing of slack"), "{problem}");
}

#[test]
fn problems_have_their_place() {
    let bad = UTILISATION.replace("12345", "many");
    let problem = parse("utilization.rpt", bad.as_bytes()).unwrap_err();
    assert_eq!(problem.code(), "Q0664");
    assert!(problem.to_string().contains("utilization.rpt:6"), "{problem}");
    for (name, text) in [("x.sta.rpt", FIT), ("x.fit.rpt", STA), ("utilization.rpt", ""), ("x", "")]
    {
        assert_eq!(parse(name, text.as_bytes()).unwrap_err().code(), "Q0664", "{name}");
    }
    let long = vec![b' '; MAX_LENGTH + 1];
    assert_eq!(parse("timing.rpt", &long).unwrap_err().code(), "Q0664");
}

const NAMES: [&str; 5] =
    ["utilization.rpt", "timing.rpt", "x.fit.rpt", "x.fit.summary", "x.sta.rpt"];

proptest! {
    /// Any bytes give a report or a problem.
    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for name in NAMES {
            match parse(name, &bytes) {
                Ok(found) => prop_assert!(found.figures != Figures::default()),
                Err(problem) => prop_assert_eq!(problem.code(), "Q0664"),
            }
        }
    }

    /// So do reports with lines that are exchanged, cut and repeated.
    #[test]
    fn damaged_reports(
        which in 0..5_usize,
        order in prop::collection::vec((0..40_usize, 0..60_usize, any::<bool>()), 0..40),
    ) {
        let text = [UTILISATION, TIMING, FIT, SUMMARY, STA][which];
        let lines: Vec<&str> = text.lines().collect();
        let damaged: String = order.iter().map(|&(line, length, cut)| {
            let line = lines[line % lines.len()];
            let kept = if cut { length.min(line.len()) } else { line.len() };
            format!("{}\n", &line[..kept])
        }).collect();
        for name in NAMES {
            match parse(name, damaged.as_bytes()) {
                Ok(found) => {
                    let Figures { lut, alm, ff, dsp, bram, fmax, wns } = found.figures;
                    let all = [lut, alm, ff, dsp, bram, fmax, wns];
                    prop_assert!(all.iter().flatten().all(|figure| figure.is_finite()));
                }
                Err(problem) => prop_assert_eq!(problem.code(), "Q0664"),
            }
        }
    }
}
