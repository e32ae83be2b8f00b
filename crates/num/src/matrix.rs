//! A matrix inside a slice.

/// `rows` by `columns` numbers inside a slice, any stride in both directions.
///
/// Invariant: every element lies inside the slice.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    data: &'a [T],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// A matrix whose element (r, c) is `data[r * row_stride + c * column_stride]`.
    ///
    /// # Panics
    /// When an element lies outside `data`.
    pub fn new(
        data: &'a [T],
        rows: usize,
        columns: usize,
        row_stride: usize,
        column_stride: usize,
    ) -> Self {
        let last_row = span(rows, row_stride, 1);
        let last_column = span(columns, column_stride, 1);
        let inside = match (last_row, last_column) {
            _ if rows == 0 || columns == 0 => true,
            (Some(row), Some(column)) => {
                row.checked_add(column - 1).is_some_and(|n| n <= data.len())
            }
            _ => false,
        };
        assert!(inside, "every element of a matrix lies inside its slice");
        Matrix { data, rows, columns, row_stride, column_stride }
    }

    /// Rows that follow one another.
    ///
    /// # Panics
    /// When `data` is shorter than `rows * columns`.
    pub fn row_major(data: &'a [T], rows: usize, columns: usize) -> Self {
        Self::new(data, rows, columns, columns, 1)
    }

    /// The same numbers with rows and columns exchanged.
    #[must_use]
    pub fn transposed(self) -> Self {
        Matrix {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Distance between elements of one column.
    pub fn row_stride(&self) -> usize {
        self.row_stride
    }

    /// Distance between elements of one row.
    pub fn column_stride(&self) -> usize {
        self.column_stride
    }

    /// The slice.
    pub fn data(&self) -> &'a [T] {
        self.data
    }
}

impl<T: Copy> Matrix<'_, T> {
    /// One element.
    ///
    /// # Panics
    /// When it lies outside the matrix.
    pub fn get(&self, row: usize, column: usize) -> T {
        assert!(row < self.rows && column < self.columns, "the element lies inside the matrix");
        self.data[row * self.row_stride + column * self.column_stride]
    }
}

/// Elements from the first of the first row to the last of the last row, when rows of `width` lie
/// `stride` apart. `None` when it exceeds `usize`.
pub(crate) fn span(rows: usize, stride: usize, width: usize) -> Option<usize> {
    match rows.checked_sub(1) {
        None => Some(0),
        Some(before) => before.checked_mul(stride)?.checked_add(width),
    }
}
