use quincunx_contract::ArchSource;
use quincunx_scamp::*;
fn main() {
    let effort: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let seeds: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let arch = ScampArch::from_source(&ArchSource::Text {
        name: "x".into(),
        text: "name=\"a\"\nmacros=\"all\"\n".into(),
    })
    .unwrap();
    let mut sum = 0.0;
    for name in std::env::args().skip(3) {
        let file = files::read_kernels(
            &std::fs::read_to_string(format!("/work/shared/golden/scamp/cain_inputs/{name}.json"))
                .unwrap(),
        )
        .unwrap();
        let task = task::Task::of_file(&file, &arch).unwrap();
        let time = std::time::Instant::now();
        let l: Vec<u64> = (1..=seeds)
            .map(|seed| {
                search::find(
                    &task,
                    &arch,
                    search::Settings { leftovers: false, effort: search::Effort(effort), seed },
                )
                .unwrap()
                .length()
            })
            .collect();
        let mean = l.iter().sum::<u64>() as f64 / seeds as f64;
        sum += mean;
        println!(
            "{name:12} {mean:.2} {l:?} {:.2}s each",
            time.elapsed().as_secs_f64() / seeds as f64
        );
    }
    println!("sum {sum:.2}");
}
