//! Operators whose attributes are operands in ONNX, and recurrent layers.

use crate::export::writer::{Writer, extents, float, int, ints, operation, text};
use crate::proto::AttributeProto;
use quincunx_diag::Result;
use quincunx_graph::{
    Cell, Coordinates, Direction, Interpolation, Nearest, Node, Pad, PadMode, Recurrent,
    RecurrentOutput, Resize, ResizeTarget, SliceRange,
};
use quincunx_tensor::Tensor;

impl Writer<'_> {
    /// A list of integers as an initialiser named after the node's result.
    pub(crate) fn list(&mut self, node: &Node, what: &str, values: Vec<i64>) -> Result<String> {
        let base = format!("{}_{what}", self.name(node.output));
        Ok(self.fresh_initialiser(&base, &Tensor::from_vec(&[values.len()], values)?))
    }

    pub(crate) fn write_slice(&mut self, node: &Node, ranges: &[SliceRange]) -> Result<()> {
        let axes: Vec<usize> = ranges.iter().map(|range| range.axis).collect();
        let lists = [
            self.list(node, "starts", ranges.iter().map(|range| range.start).collect())?,
            self.list(node, "ends", ranges.iter().map(|range| range.end).collect())?,
            self.list(node, "axes", extents(&axes))?,
            self.list(node, "steps", ranges.iter().map(|range| range.step).collect())?,
        ];
        self.with_operands(node, &lists, Vec::new());
        Ok(())
    }

    pub(crate) fn write_pad(&mut self, node: &Node, pad: &Pad) -> Result<()> {
        let dtype = self.graph[node.output].dtype;
        let before = pad.pads.iter().map(|pads| pads.0);
        let after = pad.pads.iter().map(|pads| pads.1);
        let mut more = vec![self.list(node, "pads", before.chain(after).collect())?];
        let mode = match pad.mode {
            PadMode::Constant(value) => {
                let base = format!("{}_value", self.name(node.output));
                more.push(self.fresh_initialiser(&base, &crate::dtype::scalar(dtype, value)?));
                "constant"
            }
            PadMode::Edge => "edge",
            PadMode::Reflect => "reflect",
            PadMode::Wrap => {
                self.need_opset(19);
                "wrap"
            }
        };
        self.with_operands(node, &more, vec![text("mode", mode)]);
        Ok(())
    }

    pub(crate) fn write_resize(&mut self, node: &Node, resize: &Resize) -> Result<()> {
        self.need_opset(18);
        let base = self.name(node.output).to_owned();
        let roi = if resize.roi.is_empty() {
            String::new()
        } else {
            let bounds = resize.roi.iter().map(|r| r.0).chain(resize.roi.iter().map(|r| r.1));
            let bounds: Vec<f32> = bounds.collect();
            let roi = Tensor::from_vec(&[bounds.len()], bounds)?;
            self.fresh_initialiser(&format!("{base}_roi"), &roi)
        };
        let more = match &resize.target {
            ResizeTarget::Scales(scales) => {
                let scales = Tensor::from_vec(&[scales.len()], scales.clone())?;
                vec![roi, self.fresh_initialiser(&format!("{base}_scales"), &scales)]
            }
            ResizeTarget::Sizes(sizes) => {
                vec![roi, String::new(), self.list(node, "sizes", extents(sizes))?]
            }
        };
        if resize.coordinates == Coordinates::HalfPixelSymmetric {
            self.need_opset(19);
        }
        self.with_operands(node, &more, resize_attributes(resize));
        Ok(())
    }

    /// A layer with one of its outputs.
    pub(crate) fn write_recurrent(&mut self, node: &Node, layer: &Recurrent) {
        let position = match layer.output {
            RecurrentOutput::States => 0,
            RecurrentOutput::LastState => 1,
            RecurrentOutput::LastCell => 2,
        };
        let mut attributes = vec![
            int("hidden_size", i64::try_from(layer.hidden).unwrap_or(i64::MAX)),
            text(
                "direction",
                match layer.direction {
                    Direction::Forward => "forward",
                    Direction::Reverse => "reverse",
                    Direction::Bidirectional => "bidirectional",
                },
            ),
        ];
        if let Cell::Gru { linear_before_reset } = layer.cell {
            attributes.push(int("linear_before_reset", linear_before_reset.into()));
        }
        let name = |index: usize| node.input(index).map_or("", |id| self.name(id));
        // ONNX has the lengths of the sequences before the states.
        let mut inputs = vec![name(0), name(1), name(2), name(3), "", name(4), name(5), name(6)];
        while inputs.last() == Some(&"") {
            inputs.pop();
        }
        let mut written = operation(node.op.name(), &inputs, self.name(node.output), attributes);
        written.output = vec![String::new(); position];
        written.output.push(self.name(node.output).to_owned());
        self.node(&node.name, written);
    }
}

fn resize_attributes(resize: &Resize) -> Vec<AttributeProto> {
    let coordinates = match resize.coordinates {
        Coordinates::HalfPixel => "half_pixel",
        Coordinates::HalfPixelSymmetric => "half_pixel_symmetric",
        Coordinates::PytorchHalfPixel => "pytorch_half_pixel",
        Coordinates::AlignCorners => "align_corners",
        Coordinates::Asymmetric => "asymmetric",
        Coordinates::TfHalfPixel => "tf_half_pixel_for_nn",
        Coordinates::CropAndResize { .. } => "tf_crop_and_resize",
    };
    let mut all = vec![
        ints("axes", resize.axes.iter().copied()),
        text("coordinate_transformation_mode", coordinates),
    ];
    if let Coordinates::CropAndResize { extrapolation } = resize.coordinates {
        all.push(float("extrapolation_value", extrapolation));
    }
    match resize.interpolation {
        Interpolation::Nearest(nearest) => {
            let nearest = match nearest {
                Nearest::RoundPreferFloor => "round_prefer_floor",
                Nearest::RoundPreferCeil => "round_prefer_ceil",
                Nearest::Floor => "floor",
                Nearest::Ceil => "ceil",
            };
            all.extend([text("mode", "nearest"), text("nearest_mode", nearest)]);
        }
        Interpolation::Linear => all.push(text("mode", "linear")),
        Interpolation::Cubic { a } => {
            all.extend([text("mode", "cubic"), float("cubic_coeff_a", a)]);
        }
    }
    if resize.exclude_outside {
        all.push(int("exclude_outside", 1));
    }
    all
}
