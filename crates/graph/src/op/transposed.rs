//! Attributes of transposed convolutions.

use crate::{Spatial, Window};

/// Attributes of a transposed convolution: the gradient of a convolution with the same window.
/// Inputs: `x [N, C, …]`, `w [C, M / groups, …]`, optional `b [M]`.
///
/// Element `i` of an axis is added, times tap `t` of the kernel, to element
/// `i * stride + t * dilation - pad` of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvTranspose {
    /// The window; its kernel equals the spatial extents of `w`. Padding is cut off the result.
    pub window: Window,
    /// Channel groups.
    pub groups: usize,
    /// Elements added to the end of every spatial axis of the result.
    pub output_padding: Spatial,
}

impl ConvTranspose {
    /// Extent of a spatial axis of the result; `None` when nothing is left or it overflows.
    pub fn extent(&self, axis: usize, input: usize) -> Option<usize> {
        let window = &self.window;
        let (before, after) = window.pads[axis];
        input
            .checked_sub(1)?
            .checked_mul(window.strides[axis])?
            .checked_add(window.span(axis)?)?
            .checked_add(self.output_padding[axis])?
            .checked_sub(before)?
            .checked_sub(after)
            .filter(|&extent| extent > 0)
    }

    /// Element of the result along `axis` that tap `tap` of element `position` adds to; `None`
    /// when it lies in the padding.
    pub fn target(&self, axis: usize, position: usize, tap: usize, extent: usize) -> Option<usize> {
        let window = &self.window;
        let padded = position * window.strides[axis] + tap * window.dilations[axis];
        padded.checked_sub(window.pads[axis].0).filter(|&target| target < extent)
    }
}
