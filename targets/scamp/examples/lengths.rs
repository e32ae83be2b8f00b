use quincunx_contract::ArchSource;
use quincunx_scamp::*;
fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let effort: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let ops = std::env::args().nth(3).unwrap();
    let leftovers = std::env::args().nth(4).is_some();
    let text = if ops == "basic" {
        "name=\"b\"\nmacros=\"basic\"\n"
    } else {
        "name=\"a\"\nmacros=\"all\"\n"
    };
    let arch =
        ScampArch::from_source(&ArchSource::Text { name: "x".into(), text: text.into() }).unwrap();
    let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let Ok(file) = files::read_kernels(&std::fs::read_to_string(&path).unwrap()) else {
            continue;
        };
        if file.mode != files::Mode::Analogue {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let task = match task::Task::of_file(&file, &arch) {
            Ok(t) => t,
            Err(e) => {
                println!("{name}: {e:?}");
                continue;
            }
        };
        let time = std::time::Instant::now();
        let s = |effort| search::Settings { leftovers, effort: search::Effort(effort), seed: 1 };
        let first = search::find(&task, &arch, s(0));
        let t1 = time.elapsed().as_secs_f64();
        match first {
            Err(e) => {
                println!("{name}: first {e:?}");
                continue;
            }
            Ok(first) => {
                let time = std::time::Instant::now();
                match search::find(&task, &arch, s(effort)) {
                    Ok(p) => println!(
                        "{name:14} first {} {:.3}s  best {} bus {} {:.2}s",
                        first.length(),
                        t1,
                        p.length(),
                        p.bus_steps(),
                        time.elapsed().as_secs_f64()
                    ),
                    Err(e) => println!("{name}: {e:?}"),
                }
            }
        }
    }
}
