//! Model folders other than the one with which every test starts.

use std::path::{Path, PathBuf};

use clew_testkit::TinyBert;

/// Writes a model of half the width, so its vectors have another dimension.
pub fn write_narrow_bert(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    TinyBert { seed: 1, width: 32, ..TinyBert::default() }.write(folder).unwrap();
}

/// Returns the folder of the published model, the only one that the reader reads with.
pub fn published_model() -> PathBuf {
    let cache = "../../.cache/models/all-MiniLM-L6-v2";
    let folder = std::env::var_os("CLEW_MODEL_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(cache), PathBuf::from);
    assert!(
        folder.join("config.json").is_file(),
        "no model in {}: run `make setup`, or set CLEW_MODEL_DIR to a folder of all-MiniLM-L6-v2",
        folder.display()
    );
    folder
}
