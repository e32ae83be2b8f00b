//! Kernels, buffers and an ordered list of launches: what a whole network is on this machine.
//!
//! Parts name each other. Everything that can be wrong with that, and with sizes, is found by
//! [`check`](super::check::check), so that files can be read, shown and mended before they are sound.

use super::{Element, Listing};
use bytes::Bytes;
use quincunx_diag::Span;
use quincunx_tensor::element_count;
use std::collections::BTreeMap;

/// Declares a list of terms with their spellings.
macro_rules! named_terms {
    ($(#[$meta:meta])* $name:ident { $($value:ident $spelling:literal $doc:literal)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[doc = $doc] $value,)+
        }

        impl $name {
            /// Every spelling.
            pub const NAMES: &'static [&'static str] = &[$($spelling),+];

            /// The spelling in files.
            pub fn name(self) -> &'static str {
                match self { $($name::$value => $spelling),+ }
            }

            /// The term with this spelling.
            pub fn from_name(name: &str) -> Option<$name> {
                match name { $($spelling => Some($name::$value),)+ _ => None }
            }
        }
    };
}

/// A place in a text. Places do not count when programs are compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place(pub Option<Span>);

impl PartialEq for Place {
    fn eq(&self, _: &Place) -> bool {
        true
    }
}

/// A program of launches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// The memory that they work on.
    pub buffers: Vec<Buffer>,
    /// What runs, one after the other.
    pub launches: Vec<Launch>,
    /// Layers of the network that was compiled, in order of their launches.
    pub layers: Vec<Layer>,
}

/// Machine code with what it needs to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Name.
    pub name: String,
    /// Its instructions.
    pub listing: Listing,
    /// What it runs in.
    pub environment: Environment,
    /// What lies where in the cross-thread data.
    pub arguments: Vec<Argument>,
    /// Where a file names it.
    pub place: Place,
}

/// What a kernel runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Environment {
    /// Registers of a thread: 128 or 256.
    pub grfs: u32,
    /// Lanes of a thread: 1, 8, 16 or 32.
    pub simd: u32,
    /// Bytes of shared local memory of a group.
    pub slm: u32,
    /// Barriers of a group.
    pub barriers: u32,
    /// Bytes of cross-thread data that arrive in r1: 0, 32 or 64.
    pub inline: u32,
    /// Bytes of local ids of a thread, behind the cross-thread data; 0 without.
    pub local_ids: u32,
}

/// A part of the cross-thread data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// What it holds.
    pub kind: ArgumentKind,
    /// First byte.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
}

/// What a part of the cross-thread data holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// The address of a buffer, the parameter with this index.
    Pointer {
        /// Index of the parameter.
        index: u32,
        /// What the kernel does with it.
        access: Access,
    },
    /// A buffer that messages reach by an entry of the binding table; no bytes.
    Surface {
        /// Index of the parameter.
        index: u32,
        /// Entry of the binding table.
        entry: u32,
    },
    /// Where a buffer begins in its surface: 0; the parameter with this index.
    Offset {
        /// Index of the parameter.
        index: u32,
    },
    /// Bytes of a number, the parameter with this index.
    Value {
        /// Index of the parameter.
        index: u32,
        /// First byte of the number.
        from: u32,
    },
    /// What follows from the launch.
    Implicit(Implicit),
    /// Something else; its bytes are zero.
    Other(String),
}

named_terms! {
    /// What the cross-thread data of a launch hold besides arguments: three dwords each, but for
    /// the number of dimensions.
    Implicit {
        LocalSize "local_size" "Work-items of a group."
        EnqueuedLocalSize "enqueued_local_size" "The same for groups that are whole; all are, here."
        GroupCount "group_count" "Groups."
        GlobalSize "global_size" "Work-items in all."
        GlobalOffset "global_id_offset" "The first work-item: 0."
        Dimensions "work_dimensions" "3."
    }
}

named_terms! {
    /// What a kernel does with a buffer.
    Access {
        Read "readonly" "It reads."
        Write "writeonly" "It writes."
        Both "readwrite" "It reads and writes."
    }
}

named_terms! {
    /// What a buffer is for.
    Role {
        Input "input" "An input of the program."
        Output "output" "An output of the program."
        Constant "constant" "Data of the program that no launch changes."
        Scratch "scratch" "Memory between launches; zero at first, or its data."
    }
}

impl Implicit {
    /// Bytes in cross-thread data.
    pub fn bytes(self) -> u32 {
        if self == Implicit::Dimensions { 4 } else { 12 }
    }
}

/// A piece of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Name.
    pub name: String,
    /// Type of its elements.
    pub element: Element,
    /// Extents of the value that it holds.
    pub shape: Vec<usize>,
    /// Elements from one index of an axis to the next; row after row without.
    pub strides: Option<Vec<usize>>,
    /// First byte of the value.
    pub offset: u64,
    /// Bytes in all.
    pub bytes: u64,
    /// What it is for.
    pub role: Role,
    /// `real = scale * (code - zero)` for integers that stand for real numbers.
    pub grid: Option<(f64, i64)>,
    /// Every byte at first, where it has no data: what the border of an image holds.
    pub fill: u8,
    /// Its bytes at first, from the first one on.
    pub data: Option<Bytes>,
    /// The buffer whose bytes it shares, and its first byte there.
    pub inside: Option<(String, u64)>,
    /// Where a file names it.
    pub place: Place,
}

impl Buffer {
    /// A buffer of a value that lies row after row.
    pub fn new(name: impl Into<String>, element: Element, shape: &[usize], role: Role) -> Buffer {
        let mut buffer = Buffer {
            name: name.into(),
            element,
            shape: shape.to_vec(),
            strides: None,
            offset: 0,
            bytes: 0,
            role,
            grid: None,
            fill: 0,
            data: None,
            inside: None,
            place: Place::default(),
        };
        buffer.bytes = buffer.extent().unwrap_or(u64::MAX);
        buffer
    }

    /// Elements from one index of an axis to the next; `None` when they are too many to count.
    pub fn steps(&self) -> Option<Vec<usize>> {
        if let Some(strides) = &self.strides {
            return Some(strides.clone());
        }
        let inner = |axis: usize| element_count(self.shape.get(axis.checked_add(1)?..)?);
        (0..self.shape.len()).map(inner).collect()
    }

    /// Bytes up to the end of the last element of the value; `None` when they are too many to
    /// count.
    pub fn extent(&self) -> Option<u64> {
        if element_count(&self.shape)? == 0 {
            return Some(self.offset);
        }
        let mut last = 0u64;
        for (&extent, step) in self.shape.iter().zip(self.steps()?) {
            let index = u64::try_from(extent.checked_sub(1)?).ok()?;
            last = last.checked_add(index.checked_mul(u64::try_from(step).ok()?)?)?;
        }
        let elements = last.checked_add(1)?;
        self.offset.checked_add(elements.checked_mul(self.element.bytes().into())?)
    }

    /// The first byte of every element of the value, in row-major order. The buffer must be one
    /// that [`check`](super::check::check) accepts.
    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        let steps = self.steps().unwrap_or_default();
        let count = element_count(&self.shape).unwrap_or(0);
        let size = self.element.bytes() as usize;
        let first = usize::try_from(self.offset).unwrap_or(usize::MAX);
        (0..count).map(move |element| {
            let (mut rest, mut at) = (element, 0usize);
            for (&extent, &step) in self.shape.iter().zip(&steps).rev() {
                let (index, outer) = (rest.checked_rem(extent), rest.checked_div(extent));
                at = at.saturating_add(index.unwrap_or(0).saturating_mul(step));
                rest = outer.unwrap_or(0);
            }
            first.saturating_add(at.saturating_mul(size))
        })
    }
}

/// One start of a kernel on many threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Name of the kernel.
    pub kernel: String,
    /// Groups along x, y and z.
    pub groups: [u32; 3],
    /// Threads of a group.
    pub threads: u32,
    /// Work-items of a group along x, y and z; `None`: all lanes of its threads, along x.
    pub local_size: Option<[u32; 3]>,
    /// Value of every parameter.
    pub arguments: Vec<Value>,
    /// Name of the layer that it belongs to.
    pub layer: Option<String>,
    /// Where a file has it.
    pub place: Place,
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The address of a buffer, by its name.
    Buffer(String),
    /// A whole number, in as many bytes as the kernel takes, two's complement.
    Whole(i64),
    /// A float, of as many bytes as the kernel takes.
    Real(f64),
}

/// A layer of the network that was compiled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// Name.
    pub name: String,
    /// Names of the graph's nodes that it computes.
    pub nodes: Vec<String>,
    /// Multiplications with accumulation that the graph asks for.
    pub macs: u64,
    /// Values of the graph that are complete after its last launch, and the buffers that hold them.
    pub values: BTreeMap<String, String>,
    /// The tiles that the compiler looked at.
    pub tiles: Vec<Tile>,
    /// Where a file has it.
    pub place: Place,
}

/// A tile that threads of a layer could compute, and what the compiler found out about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tile {
    /// Positions.
    pub rows: usize,
    /// Channels.
    pub channels: usize,
    /// The type in which constant weights lie in memory, of a layer that has some.
    pub weights: Option<String>,
    /// Registers of a thread: 128 or 256.
    pub grfs: u32,
    /// Registers that the kernel needs.
    pub registers: Option<u32>,
    /// Threads of the launch.
    pub threads: Option<u64>,
    /// Cycles of the launch by the timing model, with no buffer in a cache before.
    pub cycles: Option<u64>,
    /// What limits it.
    pub limit: Option<String>,
    /// [`Tile::TAKEN`], or why not.
    pub verdict: String,
}

impl Tile {
    /// The verdict of the tile that the layer has.
    pub const TAKEN: &'static str = "taken";
}

impl std::fmt::Display for Tile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tile { rows, channels, grfs, verdict, .. } = self;
        write!(f, "{rows} x {channels} with {grfs} registers: {verdict}")
    }
}

impl Kernel {
    /// A kernel without arguments.
    pub fn of_listing(name: &str, listing: Listing, grfs: u32, simd: u32) -> Kernel {
        let environment = Environment { grfs, simd, slm: 0, barriers: 0, inline: 0, local_ids: 0 };
        let (name, arguments, place) = (name.to_owned(), Vec::new(), Place::default());
        Kernel { name, listing, environment, arguments, place }
    }

    /// Bytes of cross-thread data.
    pub fn cross_bytes(&self) -> u32 {
        let end = |argument: &Argument| argument.offset.saturating_add(argument.size);
        self.arguments.iter().map(end).max().unwrap_or(0)
    }

    /// Parameters that a launch gives values for.
    pub fn parameters(&self) -> u32 {
        let index = |argument: &Argument| argument.kind.index();
        self.arguments.iter().filter_map(index).max().map_or(0, |last| last.saturating_add(1))
    }
}

impl ArgumentKind {
    /// Index of the parameter that it holds.
    pub fn index(&self) -> Option<u32> {
        match self {
            ArgumentKind::Pointer { index, .. }
            | ArgumentKind::Surface { index, .. }
            | ArgumentKind::Offset { index }
            | ArgumentKind::Value { index, .. } => Some(*index),
            ArgumentKind::Implicit(_) | ArgumentKind::Other(_) => None,
        }
    }
}

impl Launch {
    /// Work-items of a group along x, y and z.
    pub fn items(&self, kernel: &Kernel) -> [u32; 3] {
        let all = self.threads.saturating_mul(kernel.environment.simd);
        self.local_size.unwrap_or([all, 1, 1])
    }
}

impl Device {
    /// The kernel with a name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// The place of the buffer with a name.
    pub fn buffer_index(&self, name: &str) -> Option<usize> {
        self.buffers.iter().position(|buffer| buffer.name == name)
    }

    /// The buffer with a name.
    pub fn buffer(&self, name: &str) -> Option<&Buffer> {
        self.buffers.iter().find(|buffer| buffer.name == name)
    }
}
