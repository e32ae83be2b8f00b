//! Some images of a data set.

use crate::Dataset;
use quincunx_diag::{Diagnostic, Result};
use std::ops::Range;
use std::str::FromStr;

/// A range of images: `N` is the first N, `A..B` those from A on and before B, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection(pub Range<usize>);

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let number = |text: &str| text.parse::<usize>().ok();
        let range = match text.split_once("..") {
            Some((start, end)) => number(start).zip(number(end)).map(|(start, end)| start..end),
            None => number(text).map(|count| 0..count),
        };
        range
            .filter(|range| !range.is_empty())
            .map(Selection)
            .ok_or_else(|| "expected N or A..B with A below B, as in 8 or 4..6".to_owned())
    }
}

impl Dataset {
    /// Some of the images with their labels.
    ///
    /// # Errors
    /// `Q0616` when there are fewer images.
    pub fn select(mut self, Selection(range): &Selection) -> Result<Self> {
        let found = self.images.len();
        if range.end > found {
            let message =
                format!("there are {found} images, {}..{} asked for", range.start, range.end);
            let problem = Diagnostic::usage("Q0616", message);
            return Err(match &self.file {
                Some(file) => problem.in_file(file),
                None => problem,
            });
        }
        self.images = self.images.drain(range.clone()).collect();
        self.labels = self.labels.map(|labels| labels[range.clone()].to_vec());
        self.first += range.start;
        Ok(self)
    }

    /// A problem with an image: says which, and in which file.
    pub(crate) fn at_image(&self, index: usize, problem: Diagnostic) -> Diagnostic {
        let problem = match (&self.file, problem.place()) {
            (Some(file), None) => problem.in_file(file),
            _ => problem,
        };
        problem.with_note(format!("with image {}", self.first + index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InputFile, InputSpec};
    use quincunx_tensor::{DType, Tensor, Tensors, npy};

    #[test]
    fn images_are_selected_with_their_labels() {
        let x = Tensor::from_vec(&[4, 2], (0..8).map(|i| i as f32).collect()).unwrap();
        let labels = Tensor::from_vec(&[4], vec![0_u8, 1, 2, 3]).unwrap();
        let arrays = Tensors::from([("x".to_owned(), x), ("labels".to_owned(), labels)]);
        let bytes = npy::write_npz(&arrays).unwrap().into();
        let file = InputFile { name: "d.npz".into(), path: None, bytes };
        let input = [InputSpec {
            name: "x".into(),
            dtype: DType::F32,
            shape: vec![1, 2],
            sample: Default::default(),
        }];
        let select =
            |text: &str| Dataset::read(&file, &input).unwrap().select(&text.parse().unwrap());
        let two = select("1..3").unwrap();
        assert_eq!((two.images.len(), two.labels, two.first), (2, Some(vec![1, 2]), 1));
        assert_eq!(two.images[0]["x"].to_f64(), [2.0, 3.0]);
        assert_eq!(select("4").unwrap().images.len(), 4);
        assert!(select("3..5").unwrap_err().to_string().contains("4 images"));
        for text in ["", "0", "2..2", "3..1", "x", "-1", "1..", "..2", "1..2..3"] {
            assert!(text.parse::<Selection>().is_err(), "{text}");
        }
    }
}
