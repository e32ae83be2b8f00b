//! A machine for tests: it knows `Relu` and `Add` of equal shapes, so that every other operator
//! makes a mixed plan. A program is a text of one instruction per line, `relu y x` or `add y a b`,
//! after the line `toy`. A line `with a b` names files that belong to it.

use quincunx_contract::golden::{Layers, Values, Walk};
use quincunx_contract::*;
use quincunx_diag::{Diagnostic, Result, SourceId, Span};
use quincunx_graph::passes::Scheme;
use quincunx_graph::{Binary, Graph, Node, Op, Unary, Value, ValueId};
use quincunx_isa::{Table, Term};
use quincunx_tensor::{Tensor, Tensors};
use quincunx_timeline::{Event, Timeline};
use std::any::Any;
use std::result::Result as StdResult;

pub(crate) static TOY: Toy = Toy;

pub(crate) struct Toy;

static INFO: Info = Info {
    name: "toy",
    summary: "a machine for tests",
    presets: &[Preset { name: "small", summary: "the only one" }],
    options: &[
        OptionInfo::flag("quantised", "needs grids", false),
        OptionInfo::flag("wrong", "the simulator errs", false),
        OptionInfo::flag("full", "nothing fits", false),
        OptionInfo::flag("illegal", "the compiler errs", false),
        OptionInfo::flag("tight", "sums do not fit", false),
        OptionInfo::flag("lenient", "forgives", false),
    ],
    kinds: &[EmitKind { name: "asm", doc: "text" }, EmitKind { name: "two", doc: "two files" }],
    folder_kind: "asm",
};

static TABLE: Table = Table::new("toy", &["A machine for tests."], Term::Const(8), &[], &[], &[]);

static TABLES: [&Table; 1] = [&TABLE];

struct Small;

impl Arch for Small {
    fn name(&self) -> &str {
        "small"
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        vec![("width", "1".to_owned())]
    }

    fn to_file(&self) -> String {
        "small".to_owned()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Target for Toy {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn arch(&self, source: &ArchSource) -> Result<Box<dyn Arch>> {
        let (ArchSource::Preset(text) | ArchSource::Text { text, .. }) = source else {
            return Ok(Box::new(Small));
        };
        if text == "small" {
            return Ok(Box::new(Small));
        }
        Err(Diagnostic::usage("Q9001", "toy has one machine, small"))
    }

    fn compiler(&self) -> Option<&dyn Compiler> {
        Some(self)
    }

    fn read(
        &self,
        files: &[File],
        interface: Option<Interface>,
        _: &dyn Arch,
        options: &Options,
        log: &mut Log,
    ) -> StdResult<Box<dyn Program>, Vec<Diagnostic>> {
        let text = files[0].text().map_err(|problem| vec![problem])?;
        let mut code = Vec::new();
        let mut problems = Vec::new();
        for line in text.lines().skip(1).filter(|line| !line.starts_with("with ")) {
            match Instruction::parse(line) {
                Some(instruction) => code.push(instruction),
                None => problems.push(Diagnostic::invalid("Q9003", format!("what is {line:?}?"))),
            }
        }
        if options.flag("lenient") {
            log.diagnostics.extend(problems.drain(..).map(Diagnostic::as_warning));
        }
        if !problems.is_empty() || !text.starts_with("toy") {
            return Err(problems);
        }
        let interface = interface.unwrap_or_else(|| raw_ports(&code));
        Ok(Box::new(Code { code, interface, wrong: options.flag("wrong") }))
    }

    fn recognises(&self, file: &File) -> bool {
        file.bytes.starts_with(b"toy\n")
    }

    fn companions(&self, file: &File) -> Vec<String> {
        let text = String::from_utf8_lossy(&file.bytes);
        let named = text.lines().filter_map(|line| line.strip_prefix("with "));
        named.flat_map(|names| names.split(' ').map(str::to_owned)).collect()
    }

    fn isa(&self) -> &'static [&'static Table] {
        &TABLES
    }
}

impl Compiler for Toy {
    fn numbers(&self, _: &dyn Arch, options: &Options) -> Numbers {
        match options.flag("quantised") {
            true => Numbers::Quantised(Scheme::POWER_OF_TWO_8),
            false => Numbers::Own { formats: Vec::new(), rescale: false },
        }
    }

    fn claim(&self, graph: &Graph, _: &dyn Arch, _: &Options, _: &Refused) -> Result<Vec<Claim>> {
        Ok(graph.nodes().map(|(_, node)| claim(graph, node)).collect())
    }

    fn compile(
        &self,
        graph: &Graph,
        _: &dyn Arch,
        options: &Options,
        log: &mut Log,
    ) -> StdResult<Compiled, NotCompiled> {
        if options.flag("full") {
            return Err(Diagnostic::unsupported("Q9002", "it does not fit").into());
        }
        if options.flag("tight") {
            let adds = graph.nodes().filter(|(_, node)| node.op == Op::Binary(Binary::Add));
            let problem = Diagnostic::unsupported("Q9006", "there is room for one operand");
            let refuse =
                |node: &Node| Refusal { node: node.name.clone(), problem: problem.clone() };
            let refused: Vec<_> = adds.map(|(_, node)| refuse(node)).collect();
            if !refused.is_empty() {
                return Err(NotCompiled::Refused(refused));
            }
        }
        let name = |id: ValueId| graph[id].name.clone();
        let illegal = options.flag("illegal");
        let code = graph.nodes().map(|(_, node)| {
            let nowhere = || "nowhere".to_owned();
            let operand = |id| if illegal { nowhere() } else { name(id) };
            let operands = node.operands().map(operand).collect();
            let op = if node.op == Op::Unary(Unary::Relu) { "relu" } else { "add" };
            Instruction { op, result: name(node.output), operands }
        });
        let port = |&id: &ValueId| Port {
            name: name(id),
            shape: graph[id].shape.to_vec(),
            grid: Grid::Real,
        };
        let layers = graph.nodes().enumerate().map(|(after, (_, node))| LayerTap {
            value: name(node.output),
            shape: graph[node.output].shape.to_vec(),
            after,
            place: "memory".to_owned(),
        });
        let program = Code {
            code: code.collect(),
            interface: Interface {
                inputs: graph.inputs().iter().map(port).collect(),
                outputs: graph.outputs().iter().map(port).collect(),
                layers: layers.collect(),
                ..Interface::default()
            },
            wrong: options.flag("wrong"),
        };
        log.pass("toy-code", format!("{} instructions", program.code.len()), || program.text());
        Ok(Compiled { program: Box::new(program), numerics: Numerics::default() })
    }

    fn prepare(&self, graph: &Graph, _: &dyn Arch, _: &Numerics) -> Result<Box<dyn Golden>> {
        Ok(Box::new(Walk::new(graph, Reals)?))
    }
}

struct Reals;

impl Layers for Reals {
    type Number = Vec<f64>;

    fn constant(&self, value: &Value) -> Result<Option<Vec<f64>>> {
        Err(Diagnostic::bug(format!("toy has no constant {:?}", value.name)))
    }

    fn input(&self, _: &Value, reals: &[f64]) -> Result<Vec<f64>> {
        Ok(reals.to_vec())
    }

    fn layer(&self, node: &Node, values: &Values<'_, Vec<f64>>) -> Result<Vec<f64>> {
        Ok(match (values.operand(node, 0), values.operand(node, 1)) {
            (Some(a), Some(b)) => a.iter().zip(b).map(|(a, b)| a + b).collect(),
            (Some(x), None) => x.iter().map(|v| if *v > 0.0 { *v } else { 0.0 }).collect(),
            (None, _) => return Err(Diagnostic::bug("an operand is absent")),
        })
    }

    fn reals(&self, number: &Vec<f64>) -> Option<Vec<f64>> {
        Some(number.clone())
    }
}

fn claim(graph: &Graph, node: &Node) -> Claim {
    let constant = node.operands().any(|id| graph[id].constant.is_some());
    let shapes: Vec<_> = node.operands().map(|id| &graph[id].shape).collect();
    match node.op {
        _ if constant => Claim::Host("toy has no constants".to_owned()),
        Op::Unary(Unary::Relu) => Claim::Device,
        Op::Binary(Binary::Add) if shapes[0] == shapes[1] => Claim::Device,
        _ => Claim::Host(format!("toy has no {}", node.op.name())),
    }
}

fn raw_ports(code: &[Instruction]) -> Interface {
    let port = |name: &str| Port { name: name.to_owned(), shape: vec![4], grid: Grid::Real };
    let output = code.last().map_or("x", |instruction| &instruction.result);
    Interface { inputs: vec![port("x")], outputs: vec![port(output)], ..Interface::default() }
}

#[derive(Clone)]
struct Instruction {
    op: &'static str,
    result: String,
    operands: Vec<String>,
}

impl Instruction {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (op, rest) = words.split_first()?;
        let (result, operands) = rest.split_first()?;
        let (op, arity) = match op.as_str() {
            "relu" => ("relu", 1),
            "add" => ("add", 2),
            _ => return None,
        };
        (operands.len() == arity).then(|| Instruction {
            op,
            result: result.clone(),
            operands: operands.to_vec(),
        })
    }

    fn text(&self) -> String {
        format!("{} {} {}", self.op, self.result, self.operands.join(" "))
    }
}

#[derive(Clone)]
struct Code {
    code: Vec<Instruction>,
    interface: Interface,
    wrong: bool,
}

impl Code {
    fn text(&self) -> String {
        let line = |i: &Instruction| i.text() + "\n";
        format!("toy\n{}", self.code.iter().map(line).collect::<String>())
    }
}

impl Program for Code {
    fn interface(&self) -> &Interface {
        &self.interface
    }

    fn emit(&self, kind: &str, stem: &str) -> Result<Vec<File>> {
        if kind == "two" && self.code.is_empty() {
            let first = Span { source: SourceId(0), start: 0, end: 3 };
            return Err(Diagnostic::unsupported("Q9005", "nothing for two files").label(first, ""));
        }
        let mut files = vec![File::new(format!("{stem}.toy"), self.text())];
        if kind == "two" {
            files.push(File::new(format!("{stem}.more"), "more"));
        }
        Ok(files)
    }

    fn verify(&self) -> Vec<Diagnostic> {
        let mut known: Vec<&String> = self.interface.inputs.iter().map(|p| &p.name).collect();
        let mut problems = Vec::new();
        for (index, instruction) in self.code.iter().enumerate() {
            if instruction.operands.iter().any(|operand| !known.contains(&operand)) {
                let place = quincunx_diag::Place::Instruction(index);
                problems.push(Diagnostic::invalid("Q9004", "reads what is not there").at(place));
            }
            known.push(&instruction.result);
        }
        problems
    }

    fn load(&self, _: Engine) -> Result<Box<dyn Machine>> {
        match self.verify().pop() {
            Some(problem) => Err(problem),
            None => Ok(Box::new(self.clone())),
        }
    }

    fn origin(&self, inputs: &Tensors, tap: &LayerTap, element: usize) -> Result<Option<Origin>> {
        self.interface.layer(tap, element)?;
        let mut values = inputs.clone();
        values.extend(self.load(Engine::Exec)?.run_traced(inputs)?);
        let held = |name: &String| {
            let value = values.get(name).map(|value| value.to_f64()[element].to_string());
            (name.clone(), value.unwrap_or_default())
        };
        let mut code = self.code.iter().enumerate().take(tap.after + 1);
        let last = code.rfind(|(_, instruction)| instruction.result == tap.value);
        Ok(last.map(|(index, instruction)| Origin {
            place: format!("instruction {index}"),
            text: instruction.text(),
            operands: instruction.operands.iter().map(held).collect(),
            result: held(&instruction.result),
        }))
    }

    /// Every instruction takes ten cycles.
    fn time(&self) -> Result<Timeline> {
        let mut timeline = Timeline::new("cycles");
        let lane = timeline.lane("unit");
        for (index, instruction) in self.code.iter().enumerate() {
            let (name, detail) = (instruction.op.to_owned(), instruction.result.clone());
            let start = 10 * index as u64;
            timeline.event(Event { lane, start, duration: 10, name, detail });
        }
        Ok(timeline)
    }

    fn stats(&self) -> Stats {
        let instructions = self.code.len() as u64;
        Stats { instructions, bytes: self.text().len() as u64, ..Stats::default() }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Machine for Code {
    fn run(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let mut values = self.run_traced(inputs)?;
        values.retain(|name, _| self.interface.outputs.iter().any(|port| port.name == *name));
        Ok(values)
    }

    fn run_traced(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let mut values = inputs.clone();
        for instruction in &self.code {
            let x = &values[&instruction.operands[0]];
            let mut result = x.values::<f64>()?.into_owned();
            match instruction.operands.get(1) {
                None => result.iter_mut().for_each(|v| *v = v.max(0.0)),
                Some(b) => {
                    result.iter_mut().zip(values[b].to_f64()).for_each(|(a, b)| *a += b);
                }
            }
            // A planted fault that shows on some images only.
            if self.wrong && result[0] > 0.5 {
                result[0] += 1.0;
            }
            let result = Tensor::from_vec(x.shape(), result)?;
            values.insert(instruction.result.clone(), result);
        }
        values.retain(|name, _| !inputs.contains_key(name));
        Ok(values)
    }
}
