//! Networks that the machine shares with the host: values cross in both directions.

use quincunx_contract::plan::Place;
use quincunx_contract::{ArchSource, Compiler, Engine, Log, Options, Target};
use quincunx_dais::TARGET;
use quincunx_graph::execute::{Keep, exact, float};
use quincunx_graph::{Binary, Graph, Op, Quantiser, Unary, ValueId};
use quincunx_tensor::{DType, Narrow, Tensor, Tensors};

struct Builder(Graph);

impl Builder {
    fn new() -> (Self, ValueId) {
        let mut graph = Graph::new("mixed");
        let x = graph.add_input("x", DType::F32, &[1, 4], &[]).unwrap();
        (Builder(graph), x)
    }

    fn node(&mut self, name: &str, op: Op, inputs: &[ValueId]) -> ValueId {
        let inputs: Vec<_> = inputs.iter().map(|&i| Some(i)).collect();
        self.0.add_node(name, op, &inputs, &format!("{name}_out")).unwrap()
    }

    fn quantise(&mut self, name: &str, x: ValueId, scale: f64) -> ValueId {
        self.node(name, Op::Quantise(Quantiser::symmetric(true, 6, scale)), &[x])
    }

    /// A detour through another float type, which only the host takes. It changes no number.
    fn detour(&mut self, name: &str, x: ValueId) -> ValueId {
        let to = DType::Narrow(Narrow::Bf16);
        let short = self.node(&format!("{name}_short"), Op::Cast { to }, &[x]);
        self.node(name, Op::Cast { to: DType::F32 }, &[short])
    }

    fn finish(mut self, output: ValueId) -> Graph {
        self.0.add_output(output);
        self.0
    }
}

/// Runs the plan: simulator and golden model must agree on every device segment, and the result
/// with exact arithmetic. Returns the place of every node.
fn run(graph: &Graph) -> Vec<(String, Place, Option<String>)> {
    let arch = TARGET.arch(&ArchSource::Default).unwrap();
    let options = Options::new(TARGET.info().options, &[]).unwrap();
    let plan = crate::common::plan(graph, arch.as_ref());
    let numbers = [-1.5_f32, 0.75, 2.0, -0.125];
    let mut values =
        Tensors::from([("x".to_owned(), Tensor::from_vec(&[1, 4], numbers.to_vec()).unwrap())]);
    let inputs = values.clone();
    for segment in &plan.segments {
        assert!(segment.graph.verify().is_empty());
        match segment.place {
            Place::Host => {
                let narrow = |(name, t): (&String, &Tensor)| {
                    let floats = t.to_f64().iter().map(|&v| v as f32).collect();
                    (name.clone(), Tensor::from_vec::<f32>(t.shape(), floats).unwrap())
                };
                let given = values.iter().map(narrow).collect();
                values.extend(float(&segment.graph, &given, Keep::Outputs).unwrap());
            }
            Place::Device => {
                let compiled = TARGET
                    .compile(&segment.graph, arch.as_ref(), &options, &mut Log::default())
                    .unwrap_or_else(|problems| panic!("{problems:?}\n{}", segment.graph));
                let mut machine = compiled.program.load(Engine::Exec).unwrap();
                let traced = machine.run_traced(&values).unwrap();
                let golden =
                    crate::common::golden_of(&segment.graph, &compiled.numerics, &values).unwrap();
                for (name, value) in &traced {
                    assert_eq!(value, &golden[name], "{name}\n{}", segment.graph);
                }
                values.extend(traced);
            }
        }
    }
    let expected = exact(graph, &inputs, Keep::Outputs).unwrap();
    for (name, value) in expected {
        assert_eq!(values[&name].to_f64(), value.to_f64(), "{name}");
    }
    plan.rows.into_iter().map(|row| (row.node, row.place, row.reason)).collect()
}

fn places(rows: &[(String, Place, Option<String>)]) -> Vec<(&str, Place)> {
    rows.iter().map(|(node, place, _)| (node.as_str(), *place)).collect()
}

use Place::{Device, Host};

/// A skip connection around a host node: the quantised value enters the machine a second time.
#[test]
fn a_value_on_a_grid_may_cross_the_host() {
    let (mut b, x) = Builder::new();
    let v = b.quantise("v", x, 0.125);
    let detour = b.detour("detour", v);
    let u = b.quantise("u", detour, 0.25);
    let y = b.node("add", Op::Binary(Binary::Add), &[u, v]);
    let graph = b.finish(y);
    let rows = run(&graph);
    assert_eq!(
        places(&rows),
        [("v", Device), ("detour_short", Host), ("detour", Host), ("u", Device), ("add", Device)]
    );
}

#[test]
fn an_unquantised_value_may_not_cross_the_host() {
    let (mut b, x) = Builder::new();
    let v = b.quantise("v", x, 0.125);
    let c = b.node("relu", Op::Unary(Unary::Relu), &[v]);
    let detour = b.detour("detour", c);
    let u = b.quantise("u", detour, 0.25);
    let y = b.node("add", Op::Binary(Binary::Add), &[u, c]);
    let z = b.quantise("z", y, 0.5);
    let graph = b.finish(z);
    let rows = run(&graph);
    assert_eq!(places(&rows)[5..], [("add", Host), ("z", Device)]);
    assert!(rows[5].2.as_ref().unwrap().contains("relu_out"), "{:?}", rows[5]);
}

/// Two grids on one value that comes back from the host, and two on a graph input.
#[test]
fn a_value_enters_on_one_grid() {
    let (mut b, x) = Builder::new();
    let v = b.quantise("v", x, 0.125);
    let w = b.quantise("w", x, 0.5);
    let detour = b.detour("detour", v);
    let s = b.quantise("s", detour, 0.25);
    let t = b.quantise("t", detour, 1.0);
    let st = b.node("st", Op::Binary(Binary::Sub), &[s, t]);
    let y = b.node("add", Op::Binary(Binary::Add), &[st, w]);
    let graph = b.finish(y);
    let rows = run(&graph);
    let on_host: Vec<&str> = rows.iter().filter(|r| r.1 == Host).map(|r| r.0.as_str()).collect();
    assert_eq!(on_host[..4], ["w", "detour_short", "detour", "t"]);
    assert!(rows.iter().find(|r| r.0 == "t").unwrap().2.as_ref().unwrap().contains("another grid"));
}

#[test]
fn constants_without_a_code_stay_on_the_host() {
    let (mut b, x) = Builder::new();
    let v = b.quantise("v", x, 0.125);
    let limit = Tensor::from_vec(&[1], vec![f32::INFINITY]).unwrap();
    let limit = b.0.add_constant("limit", limit).unwrap();
    let y = b.node("min", Op::Binary(Binary::Min), &[v, limit]);
    let graph = b.finish(y);
    let arch = TARGET.arch(&ArchSource::Default).unwrap();
    let plan = crate::common::plan(&graph, arch.as_ref());
    assert!(plan.rows[1].reason.as_ref().unwrap().contains("\"limit\" holds inf"));
}

/// A divisor that was turned into codes is still a power of two.
#[test]
fn a_coded_power_of_two_divides() {
    let (mut b, x) = Builder::new();
    let v = b.quantise("v", x, 0.125);
    let codes = Tensor::from_vec(&[1], vec![64_i8]).unwrap();
    let quantiser = Some(Quantiser::symmetric(true, 8, 0.0625));
    let four =
        b.0.add_constant("four", quincunx_graph::Constant { tensor: codes, quantiser }).unwrap();
    let y = b.node("div", Op::Binary(Binary::Div), &[v, four]);
    let graph = b.finish(y);
    assert_eq!(places(&run(&graph)), [("v", Device), ("div", Device)]);
}
