//! vISA text: declarations and systolic instructions of one kernel, closed by `ret`.

use crate::isa::visa::{self, Var, canonical_index};
use crate::isa::visa_layout;
use crate::program::{Align, Element, FIRST_VARIABLE, Kernel, Variable, VirtualItem};
use quincunx_diag::{Diagnostic, Result, SourceId, any_error, did_you_mean};
use quincunx_isa::{Cursor, Style, is_word, parse_lines};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const DIRECTIVES: [&str; 5] = [".version", ".kernel", ".decl", ".kernel_attr", ".input"];

/// A kernel with the warnings of its reading.
pub type Read = (Kernel, Vec<Diagnostic>);

/// Reads a kernel.
///
/// # Errors
/// All errors of the text: those of the kit, `Q6020` for an unknown directive, `Q6022` for an
/// unknown variable, `Q6023` for a name that is taken, `Q6024` for a malformed declaration, `Q6025`
/// for a predicate and `Q6026` for one that is not declared, `Q6027` for text after `ret`.
pub fn read(text: &str, source: SourceId) -> std::result::Result<Read, Vec<Diagnostic>> {
    let text = lower_mnemonics(text);
    let mut parser = Parser::new(&text);
    let cursor = Cursor::new(&text, source, Style::SLASHES);
    let lines = parse_lines(cursor, |cursor| parser.statement(cursor));
    if any_error(&lines.diagnostics) {
        return Err(lines.diagnostics);
    }
    let mut kernel = parser.kernel;
    let item = |(span, inst)| VirtualItem { inst, span: Some(span) };
    kernel.instructions = lines.items.into_iter().map(item).collect();
    Ok((kernel, parser.warnings))
}

/// The text with its systolic mnemonics and precisions in lower case; the places stay.
fn lower_mnemonics(text: &str) -> Cow<'_, str> {
    let is_upper = |line: &str| {
        let word = first_word(line);
        word.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("dpas"))
            && word.bytes().any(|b| b.is_ascii_uppercase())
    };
    if !text.lines().any(is_upper) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (blanks, rest) = line.split_at(line.len() - line.trim_start().len());
        let (word, rest) = rest.split_at(if is_upper(rest) { first_word(rest).len() } else { 0 });
        out += blanks;
        out += &word.to_ascii_lowercase();
        out += rest;
    }
    Cow::Owned(out)
}

fn first_word(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or_default()
}

struct Parser<'a> {
    text: &'a str,
    kernel: Kernel,
    names: BTreeMap<String, u32>,
    warnings: Vec<Diagnostic>,
    ended: bool,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Parser<'a> {
        Parser {
            text,
            kernel: Kernel::new(),
            names: BTreeMap::new(),
            warnings: Vec::new(),
            ended: false,
        }
    }

    fn statement(&mut self, cursor: &mut Cursor<'_>) -> Result<Option<visa::Inst>> {
        let start = cursor.position();
        if self.ended {
            return Err(cursor.error("Q6027", "there is text after `ret`", start));
        }
        match cursor.peek() {
            Some('.') => self.directive(cursor).map(|()| None),
            Some('(') => Err(self.predicate(cursor)),
            _ if cursor.eat_word("ret") => {
                cursor.skip_blanks();
                ret_size(cursor)?;
                self.ended = true;
                Ok(None)
            }
            _ => self.instruction(cursor).map(Some),
        }
    }

    /// A predicate in front of an instruction: an error in any case.
    fn predicate(&self, cursor: &mut Cursor<'_>) -> Diagnostic {
        let start = cursor.position();
        cursor.eat("(");
        cursor.eat("!");
        let name = cursor.peek_word();
        let (code, message) = if self.kernel.predicates.iter().any(|(known, _)| known == name) {
            ("Q6025", "systolic instructions take no predicate".to_owned())
        } else {
            let shown: String = name.chars().take(40).collect();
            ("Q6026", format!("there is no predicate variable `{shown}`"))
        };
        cursor.eat(name);
        cursor.eat(")");
        cursor.error(code, message, start)
    }

    fn instruction(&mut self, cursor: &mut Cursor<'_>) -> Result<visa::Inst> {
        let raw = visa::TABLE.parse(cursor, Some(visa_layout(false, false)))?;
        let inst = visa::Inst::from_raw(&raw);
        let mut inst = inst.ok_or_else(|| Diagnostic::bug("a row parses to no variant"))?;
        let mut named = Ok(());
        inst.visit_operands(|variable: &mut Var| {
            if named.is_ok() {
                named = self.resolve(variable, cursor);
            }
        });
        named.map(|()| inst)
    }

    /// Puts the index of a variable in the place of its name.
    fn resolve(&self, variable: &mut Var, cursor: &Cursor<'_>) -> Result<()> {
        let Some((start, length)) = variable.name() else { return Ok(()) };
        let name = self.text.get(start..start + length).unwrap_or_default();
        let index = self.names.get(name).copied().or_else(|| canonical_index(name));
        let Some(index) = index else {
            let known = self.names.keys().map(String::as_str);
            let shown: String = name.chars().take(40).collect();
            let message = format!("there is no variable `{shown}`");
            return Err(Diagnostic::invalid("Q6022", message)
                .label(cursor.span(start, start + length), "not declared")
                .help_if(did_you_mean(name, known)));
        };
        *variable = Var(u128::from(index));
        Ok(())
    }

    fn directive(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let start = cursor.position();
        cursor.eat(".");
        let word = cursor.peek_word();
        cursor.eat(word);
        cursor.skip_blanks();
        match word {
            "version" => {
                let major = bounded(cursor, 255)?;
                cursor.expect(".")?;
                let minor = bounded(cursor, 255)?;
                self.kernel.version = (major as u8, minor as u8);
                Ok(())
            }
            "kernel" => {
                self.kernel.name = quoted(cursor)?;
                Ok(())
            }
            "decl" => self.declaration(cursor, start),
            "kernel_attr" | "input" => {
                let message = format!("`.{word}` has no meaning here and is not kept");
                while cursor.bump().is_some() {}
                let span = cursor.span_from(start);
                self.warnings.push(Diagnostic::warning("Q6020", message).label(span, ""));
                Ok(())
            }
            _ => {
                let shown: String = word.chars().take(40).collect();
                let hint = did_you_mean(&format!(".{word}"), DIRECTIVES);
                let message = format!("unknown directive `.{shown}`");
                Err(cursor.error("Q6020", message, start).help_if(hint))
            }
        }
    }

    /// `.decl V33 v_type=G type=d num_elts=64 align=GRF alias=<V32, 0>`.
    fn declaration(&mut self, cursor: &mut Cursor<'_>, start: usize) -> Result<()> {
        let name = cursor.identifier()?.to_owned();
        let mut fields: BTreeMap<&str, &str> = BTreeMap::new();
        let mut alias = None;
        loop {
            cursor.skip_blanks();
            let at = cursor.position();
            let key = cursor.peek_word();
            if key.is_empty() {
                break;
            }
            cursor.eat(key);
            cursor.expect("=")?;
            if key == "alias" {
                alias = Some(self.alias(cursor)?);
                continue;
            }
            let value = cursor.peek_word();
            cursor.eat(value);
            let known = ["v_type", "type", "num_elts", "align"].contains(&key);
            if !known || value.is_empty() || fields.insert(key, value).is_some() {
                let shown: String = key.chars().take(40).collect();
                return Err(cursor.error("Q6024", format!("the field `{shown}` is malformed"), at));
            }
        }
        if self.names.contains_key(&name)
            || self.kernel.predicates.iter().any(|(taken, _)| *taken == name)
        {
            return Err(cursor.error("Q6023", format!("the name `{name}` is taken"), start));
        }
        let fault = |what: &str| cursor.error("Q6024", what.to_owned(), start);
        let count = fields.get("num_elts").and_then(|text| text.parse::<u32>().ok());
        let count = count.ok_or_else(|| fault("expected num_elts=NUMBER"))?;
        match fields.get("v_type").copied() {
            Some("P") => {
                let count =
                    u16::try_from(count).map_err(|_| fault("a predicate has 1 to 32 bits"))?;
                self.kernel.predicates.push((name, count));
                Ok(())
            }
            Some("G") => {
                let element = fields.get("type").and_then(|text| Element::from_name(text));
                let element = element.ok_or_else(|| {
                    let names: Vec<&str> = Element::ALL.iter().map(|e| e.name()).collect();
                    fault("expected type=…").help(format!("the types are {}", names.join(", ")))
                })?;
                let align = match fields.get("align") {
                    None => Some(Align::Byte),
                    Some(text) => Align::from_name(text),
                };
                let align = align.ok_or_else(|| {
                    let names: Vec<&str> = Align::ALL.iter().map(|a| a.name()).collect();
                    fault("unknown alignment").help(format!("they are {}", names.join(", ")))
                })?;
                self.names.insert(name.clone(), next_index(&self.kernel));
                let variable = Variable { name, element, elements: count, align, alias };
                self.kernel.variables.push(variable);
                Ok(())
            }
            _ => {
                Err(fault("expected v_type=G or v_type=P").help("only these variables exist here"))
            }
        }
    }

    fn alias(&self, cursor: &mut Cursor<'_>) -> Result<(u32, u32)> {
        cursor.expect("<")?;
        cursor.skip_blanks();
        let at = cursor.position();
        let name = cursor.identifier()?;
        let index = self.names.get(name).copied();
        let index = index.ok_or_else(|| {
            let shown: String = name.chars().take(40).collect();
            cursor.error("Q6022", format!("there is no variable `{shown}` yet"), at)
        })?;
        cursor.skip_blanks();
        cursor.expect(",")?;
        cursor.skip_blanks();
        let offset = bounded(cursor, 0x1_0000)?;
        cursor.skip_blanks();
        cursor.expect(">")?;
        Ok((index, offset))
    }
}

fn next_index(kernel: &Kernel) -> u32 {
    FIRST_VARIABLE + kernel.variables.len() as u32
}

/// `(M1, 1)` or `(1)` after `ret`.
fn ret_size(cursor: &mut Cursor<'_>) -> Result<()> {
    cursor.expect("(")?;
    cursor.skip_blanks();
    if cursor.eat("M1") {
        cursor.skip_blanks();
        cursor.expect(",")?;
        cursor.skip_blanks();
    }
    cursor.expect("1")?;
    cursor.skip_blanks();
    cursor.expect(")")
}

fn bounded(cursor: &mut Cursor<'_>, high: u32) -> Result<u32> {
    let start = cursor.position();
    let value = cursor.integer()?;
    match u32::try_from(value) {
        Ok(value) if value <= high => Ok(value),
        _ => {
            Err(cursor.error("Q6024", format!("the number is {value}, expected 0..={high}"), start))
        }
    }
}

fn quoted(cursor: &mut Cursor<'_>) -> Result<String> {
    let rest = cursor.rest_of_line();
    let inner = rest.strip_prefix('"').and_then(|rest| rest.split_once('"')).map(|(name, _)| name);
    let name = inner.filter(|name| name.chars().all(is_printable));
    let name = name.ok_or_else(|| cursor.expected("a name in double quotes"))?;
    cursor.eat("\"");
    cursor.eat(name);
    cursor.eat("\"");
    Ok(name.to_owned())
}

/// Characters of kernel names.
pub(crate) fn is_printable(c: char) -> bool {
    !c.is_control() && c != '"'
}

/// True for names that a declaration can have.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| is_word(c) && !c.is_numeric()) && name.chars().all(is_word)
}

/// Prints a kernel.
pub fn print(kernel: &Kernel) -> String {
    let names = names(kernel);
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, ".version {}.{}", kernel.version.0, kernel.version.1);
    let _ = writeln!(out, ".kernel \"{}\"", kernel.name);
    for (variable, name) in kernel.variables.iter().zip(&names) {
        let (element, align) = (variable.element.name(), variable.align.name());
        let elements = variable.elements;
        let _ =
            write!(out, ".decl {name} v_type=G type={element} num_elts={elements} align={align}");
        if let Some((index, offset)) = variable.alias {
            let target = index.checked_sub(FIRST_VARIABLE).and_then(|i| names.get(i as usize));
            let target = target.cloned().unwrap_or_else(|| format!("V{index}"));
            let _ = write!(out, " alias=<{target}, {offset}>");
        }
        out.push('\n');
    }
    for (name, count) in &kernel.predicates {
        let _ = writeln!(out, ".decl {name} v_type=P num_elts={count}");
    }
    for item in &kernel.instructions {
        out += &instruction_text(&item.inst, &names);
        out.push('\n');
    }
    out += "ret (M1, 1)\n";
    out
}

/// One instruction with the names of the kernel.
pub fn print_instruction(inst: &visa::Inst, kernel: &Kernel) -> String {
    instruction_text(inst, &names(kernel))
}

/// The names that a print uses: the declared ones, unless an instruction uses an index whose own
/// name (`V40`) is declared for another variable.
pub(crate) fn names(kernel: &Kernel) -> Vec<String> {
    let count = kernel.variables.len() as u32;
    let own: BTreeSet<u32> =
        kernel.variables.iter().filter_map(|variable| canonical_index(&variable.name)).collect();
    let declared = |index: u32| index >= FIRST_VARIABLE && index - FIRST_VARIABLE < count;
    let clashes = kernel.instructions.iter().any(|item| {
        let parts = item.inst.parts();
        [parts.dst.0, parts.src0.0, parts.src1.0, parts.src2.0].iter().any(|var| {
            let index = var.index().filter(|&index| !declared(index));
            index.is_some_and(|index| own.contains(&index))
        })
    });
    let name = |(at, variable): (usize, &Variable)| match clashes {
        true => format!("V{}", FIRST_VARIABLE + at as u32),
        false => variable.name.clone(),
    };
    kernel.variables.iter().enumerate().map(name).collect()
}

/// One instruction with [`names`].
pub(crate) fn instruction_text(inst: &visa::Inst, names: &[String]) -> String {
    let canonical = visa::TABLE.print(&inst.to_raw());
    let Some((head, operands)) = canonical.split_once(") ") else {
        return canonical;
    };
    let rename = |operand: &str| {
        let end = operand.find(['.', '(']).unwrap_or(operand.len());
        let index = canonical_index(&operand[..end]);
        let name = index
            .and_then(|index| index.checked_sub(FIRST_VARIABLE))
            .and_then(|index| names.get(index as usize));
        match name {
            Some(name) => format!("{name}{}", &operand[end..]),
            None => operand.to_owned(),
        }
    };
    let operands: Vec<String> = operands.split(' ').map(rename).collect();
    format!("{head}) {}", operands.join(" "))
}
