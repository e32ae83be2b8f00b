//! What a value is while a session is built, and how it is carried.

use super::data::{Layout, Slot};
use super::field::Field;
use quincunx_num::Ratio;
use quincunx_tensor::Shape;
use std::sync::Arc;

/// How a value is carried.
#[derive(Clone)]
pub(super) enum Form {
    /// Numbers of the value's type; f32 in any layout.
    Real(Slot, Layout),
    /// Integers with a unit.
    Grid(Box<GridValue>),
    /// An expression of integers, which readers evaluate.
    Lazy(Arc<Expr>),
    /// Exact numbers, row-major.
    Exact(Slot),
}

/// Integers that stand for real numbers: `(integer - zero) * unit`.
///
/// Every integer lies within `low..=high`; units are positive. `zero` and `unit` broadcast to the
/// shape.
#[derive(Clone, Debug)]
pub(super) struct GridValue {
    pub(super) slot: Slot,
    pub(super) layout: Layout,
    pub(super) shape: Shape,
    pub(super) low: i64,
    pub(super) high: i64,
    pub(super) unit: Field,
    pub(super) zero: Field,
}

impl GridValue {
    /// The zero point, if it is the same everywhere.
    pub(super) fn uniform_zero(&self) -> Option<i64> {
        let zero = self.zero.uniform()?;
        zero.is_int().then(|| i64::try_from(zero.numerator()).ok())?
    }
}

/// An exact number for every element of a tensor, computed from integers and constants.
#[derive(Clone, Debug)]
pub(super) enum Expr {
    /// Integers, of the shape of the result or broadcasting to it.
    Leaf(GridValue),
    /// Constants.
    Const(Field),
    /// A sum.
    Sum(Arc<Expr>, Arc<Expr>),
    /// A product.
    Product(Arc<Expr>, Arc<Expr>),
    /// The larger.
    Larger(Arc<Expr>, Arc<Expr>),
    /// The smaller.
    Smaller(Arc<Expr>, Arc<Expr>),
    /// The number where it is at least 0, else its product with the second.
    Sloped(Arc<Expr>, Field),
    /// The magnitude.
    Magnitude(Arc<Expr>),
}

impl Expr {
    pub(super) fn number(value: Ratio) -> Arc<Expr> {
        Arc::new(Expr::Const(Field::of(value)))
    }

    /// Operators, leaves and constants.
    pub(super) fn size(&self) -> usize {
        1 + match self {
            Expr::Leaf(_) | Expr::Const(_) => 0,
            Expr::Sloped(a, _) | Expr::Magnitude(a) => a.size(),
            Expr::Sum(a, b) | Expr::Product(a, b) | Expr::Larger(a, b) | Expr::Smaller(a, b) => {
                a.size() + b.size()
            }
        }
    }

    /// Every leaf.
    pub(super) fn leaves<'a>(&'a self, found: &mut Vec<&'a GridValue>) {
        match self {
            Expr::Leaf(grid) => found.push(grid),
            Expr::Const(_) => {}
            Expr::Sloped(a, _) | Expr::Magnitude(a) => a.leaves(found),
            Expr::Sum(a, b) | Expr::Product(a, b) | Expr::Larger(a, b) | Expr::Smaller(a, b) => {
                a.leaves(found);
                b.leaves(found);
            }
        }
    }

    /// The layout in which it is evaluated: that of its largest leaf.
    pub(super) fn layout(&self) -> Layout {
        let mut leaves = Vec::new();
        self.leaves(&mut leaves);
        let size = |grid: &&&GridValue| grid.shape.iter().product::<usize>();
        leaves.iter().max_by_key(size).map_or(Layout::Rows, |grid| grid.layout)
    }
}
