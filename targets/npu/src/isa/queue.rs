//! The nine queues, and lists of them.

use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::{Cursor, Custom, OperandValue};
use std::fmt;

/// An instruction queue. Queues work side by side; each executes its lines in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Queue {
    /// Control: tasks and the regions of L2.
    Ct,
    /// DRAM to L2.
    Ld,
    /// Weights into the weight buffer.
    Lw,
    /// Convolutions.
    Pe,
    /// Vector work.
    Vp,
    /// Reordering inside L2.
    Dt,
    /// L2 to DRAM.
    St,
    /// L2 of another core to L2.
    Si,
    /// L2 to L2 of another core.
    So,
}

impl Queue {
    /// Every queue, in the order of the mask bits.
    pub const ALL: [Queue; 9] = [
        Queue::Ct,
        Queue::Ld,
        Queue::Lw,
        Queue::Pe,
        Queue::Vp,
        Queue::Dt,
        Queue::St,
        Queue::Si,
        Queue::So,
    ];

    /// Name in dependency lists.
    pub fn name(self) -> &'static str {
        ["CT", "LD", "LW", "PE", "VP", "DT", "ST", "SI", "SO"][self.index()]
    }

    /// Position in [`Queue::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The queue with a name.
    pub fn from_name(name: &[u8]) -> Option<Queue> {
        Queue::ALL.into_iter().find(|queue| queue.name().as_bytes() == name)
    }

    /// The queue of a mnemonic, which begins with its name.
    pub fn of_mnemonic(mnemonic: &str) -> Option<Queue> {
        Some(match mnemonic.as_bytes().get(..2)? {
            b"ct" => Queue::Ct,
            b"ld" => Queue::Ld,
            b"lw" => Queue::Lw,
            b"pe" => Queue::Pe,
            b"vp" => Queue::Vp,
            b"dt" => Queue::Dt,
            b"st" => Queue::St,
            b"si" => Queue::Si,
            b"so" => Queue::So,
            _ => return None,
        })
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A list of queues without repetition, in the order of the text: four bits per entry, lowest
/// first, queue index plus 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Queues(u64);

impl Queues {
    /// The empty list.
    pub const NONE: Queues = Queues(0);

    /// A list in the order of the mask bits.
    pub fn of_mask(mask: u16) -> Queues {
        Queue::ALL.into_iter().filter(|queue| mask & (1 << queue.index()) != 0).collect()
    }

    /// Bit `i` is set for the queue with index `i`.
    pub fn mask(self) -> u16 {
        self.iter().fold(0, |mask, queue| mask | 1 << queue.index())
    }

    /// Number of entries.
    pub fn len(self) -> usize {
        (64 - self.0.leading_zeros()).div_ceil(4) as usize
    }

    /// True without entries.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the list has the queue.
    pub fn contains(self, queue: Queue) -> bool {
        self.iter().any(|entry| entry == queue)
    }

    /// The entries in order.
    pub fn iter(self) -> impl Iterator<Item = Queue> + Clone {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let entry = (rest & 15) as usize;
            rest >>= 4;
            Queue::ALL.get(entry.checked_sub(1)?).copied()
        })
    }

    /// Appends a queue; false if the list has it.
    pub fn push(&mut self, queue: Queue) -> bool {
        if self.contains(queue) {
            return false;
        }
        self.0 |= (queue.index() as u64 + 1) << (4 * self.len());
        true
    }

    /// The list without a queue.
    #[must_use]
    pub fn without(self, queue: Queue) -> Queues {
        self.iter().filter(|&entry| entry != queue).collect()
    }

    fn legal(raw: i128) -> bool {
        u64::try_from(raw).is_ok_and(|bits| Queues(bits).iter().collect::<Queues>().0 == bits)
    }
}

/// Repeated queues count once.
impl FromIterator<Queue> for Queues {
    fn from_iter<T: IntoIterator<Item = Queue>>(queues: T) -> Queues {
        let mut list = Queues::NONE;
        for queue in queues {
            list.push(queue);
        }
        list
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        print(OperandValue::to_raw(*self), &mut text);
        f.write_str(&text)
    }
}

impl OperandValue for Queues {
    fn to_raw(self) -> i128 {
        i128::from(self.0)
    }
    fn from_raw(raw: i128) -> Option<Self> {
        Queues::legal(raw).then_some(Queues(raw as u64))
    }
}

/// A list of queues in text: `['LD', 'PE']`.
pub(super) static QUEUES: Custom = Custom {
    name: "list of queues such as ['LD', 'PE']",
    parse,
    print,
    legal: Queues::legal,
    random: |below| Queues::of_mask((below(512) & !1) as u16).to_raw(),
};

fn parse(cursor: &mut Cursor<'_>) -> Result<i128> {
    let mut list = Queues::NONE;
    if !cursor.eat("[") {
        return Err(cursor.expected("a list of queues"));
    }
    while !cursor.eat("]") {
        if !list.is_empty() && !cursor.eat(", ") {
            return Err(cursor.expected("`, ` or `]`"));
        }
        let queue = Queue::ALL.into_iter().find(|queue| cursor.eat(&format!("'{queue}'")));
        let Some(queue) = queue else { return Err(cursor.expected("the name of a queue")) };
        if !list.push(queue) {
            return Err(Diagnostic::invalid("Q4005", format!("{queue} is listed twice")));
        }
    }
    Ok(list.to_raw())
}

fn print(raw: i128, out: &mut String) {
    let list = Queues::from_raw(raw).unwrap_or_default();
    let names: Vec<String> = list.iter().map(|queue| format!("'{queue}'")).collect();
    out.push_str(&format!("[{}]", names.join(", ")));
}
