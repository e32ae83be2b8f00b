//! Names of files.

/// Longest part of a name that comes from a model, in characters.
const LONGEST: usize = 160;

/// The name that upstream's compiler gives the files of a model for a machine, without endings: the
/// file name of the model with everything but letters, digits and blanks as `_`, then `_` and the
/// machine. Upstream also keeps colons and other white space, which not every file system takes.
pub(crate) fn stem(model: &str, arch: &str) -> String {
    let model = model.rsplit(['/', '\\']).next().expect("a split has a first part");
    let keep =
        |letter: char| if letter.is_ascii_alphanumeric() || letter == ' ' { letter } else { '_' };
    let name: String = model.chars().take(LONGEST).map(keep).collect();
    let arch = arch.strip_suffix(".tarch").unwrap_or(arch);
    let in_arch = |letter: char| if letter == '-' { letter } else { keep(letter) };
    let arch: String = arch.chars().take(LONGEST / 4).map(in_arch).collect();
    format!("{name}_{arch}")
}

#[cfg(test)]
mod tests {
    use super::stem;

    #[test]
    fn names_are_those_of_upstream() {
        let name = stem("resnet20v2_cifar.onnx", "pynqz1");
        assert_eq!(name, "resnet20v2_cifar_onnx_pynqz1");
        assert_eq!(stem("/a/b c.d:e\u{e9}.pb", "my-board 2"), "b c_d_e__pb_my-board 2");
        assert!(stem(&"x".repeat(1000), &"y".repeat(1000)).len() < 240);
    }
}
