//! Options of targets: every verb shows those that change what it does, and refuses the others.

use crate::support::{digits, programs, quincunx};
use quincunx::target::{OptionInfo, Target, VERBS};
use quincunx::targets;

/// A program of each target, which the verbs can open.
fn program(target: &str) -> String {
    programs(target).remove(0)
}

/// Every option with its target.
fn all() -> impl Iterator<Item = (&'static dyn Target, &'static OptionInfo)> {
    targets().iter().flat_map(|&target| target.info().options.iter().map(move |o| (target, o)))
}

/// What is an option of the verb itself, too.
const OF_VERBS: &str = "lenient";

#[test]
fn the_help_of_a_verb_lists_the_options_that_it_takes() {
    let verbs = quincunx(&["--help"]).text();
    for verb in VERBS {
        assert!(verbs.contains(&format!("\n  {verb} ")), "{verb} is no verb");
        let help = quincunx(&[verb, "--help"]).text();
        let shown = |name: &str| {
            let lines = help.lines().map(str::trim_start);
            let option = format!("--{name}");
            let mut names = lines.filter_map(|line| line.split([' ', '=', '[']).next());
            names.any(|word| word == option)
        };
        for (_, option) in all().filter(|(_, option)| option.name != OF_VERBS) {
            let mut named = all().filter(|(_, other)| other.name == option.name);
            let taken = named.any(|(target, o)| target.verbs_of(o).contains(&verb));
            assert_eq!(shown(option.name), taken, "{verb} --{}", option.name);
        }
        // The groups name those targets only that have something to say.
        for target in targets() {
            let name = target.info().name;
            let mut own = target.info().options.iter().filter(|option| option.name != OF_VERBS);
            let any = own.any(|option| target.verbs_of(option).contains(&verb));
            let groups = help.lines().filter(|line| line.starts_with("Options of "));
            let grouped = groups.flat_map(|line| line.split([' ', ',', ':'])).any(|w| w == name);
            assert_eq!(grouped, any, "{verb} {name}");
        }
    }
}

#[test]
fn an_option_that_changes_nothing_is_refused_with_the_verbs_that_take_it() {
    let model = digits("digits.onnx");
    for (target, option) in all() {
        let (name, verbs) = (target.info().name, target.verbs_of(option));
        assert!(!verbs.is_empty(), "{name} {} changes nothing", option.name);
        let program = program(name);
        for verb in VERBS.into_iter().filter(|verb| !verbs.contains(verb)) {
            let takes_model = ["compile", "compare", "report", "sweep"].contains(&verb);
            let file = if takes_model { &model } else { &program };
            let set = format!("{}={}", option.name, option.default);
            let mut arguments = vec![verb, file, "--target", name, "--set", &set];
            if ["run", "compare", "report"].contains(&verb) {
                arguments.extend(["--data", "zeros"]);
            }
            if verb == "report" {
                arguments.extend(["-o", "-"]);
            }
            if verb == "sweep" {
                arguments.extend(["--vary", "name=a"]);
            }
            let run = quincunx(&arguments);
            assert_eq!((run.code, run.stdout.len()), (2, 0), "{arguments:?} {}", run.stderr);
            assert!(run.stderr.contains("Q0718"), "{arguments:?} {}", run.stderr);
            let list = format!("it is an option of {}", verbs.join(", "));
            assert!(run.stderr.contains(&list), "{arguments:?} {}", run.stderr);
        }
    }
}

#[test]
fn what_only_compilers_look_at_is_refused_for_programs() {
    let program = program("dais");
    let arguments = ["run", &program, "--data", "zeros"];
    let run = quincunx(&[&arguments[..], &["--effort", "fast"]].concat());
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("effort has no effect on a program"), "{}", run.stderr);
    assert_eq!(quincunx(&[&arguments[..], &["--retiming=false"]].concat()).code, 0);
}
