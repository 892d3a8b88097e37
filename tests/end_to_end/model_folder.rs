//! Model folders other than the one every test starts with.

use std::path::Path;

use clew_testkit::TinyBert;

/// Writes a model of half the width: its vectors have another dimension.
pub fn write_narrow_bert(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    TinyBert { seed: 1, width: 32, ..TinyBert::default() }.write(folder).unwrap();
}
