//! Generator of the code in `crates/proto/src/generated`, from the files in `proto/`.
//!
//! The generated code is committed; a test checks that it is current. The generator is a crate of
//! its own because it must build even when the generated code does not.

use std::path::{Path, PathBuf};

use anyhow::Context;
use prost::Message;

const FILES: [&str; 14] = [
    "clew/auth/v1/access.proto",
    "clew/chat/v1/chat.proto",
    "clew/cluster/v1/cluster.proto",
    "clew/cluster/v1/node.proto",
    "clew/corpus/v1/corpus.proto",
    "clew/encoder/v1/encoder.proto",
    "clew/generator/v1/generator.proto",
    "clew/graph_builder/v1/graph_builder.proto",
    "clew/ingest/v1/attribute.proto",
    "clew/ingest/v1/ingest.proto",
    "clew/memory/v1/memory.proto",
    "clew/query/v1/query.proto",
    "clew/shard/v1/catalogue.proto",
    "clew/shard/v1/shard.proto",
];

fn main() -> anyhow::Result<()> {
    generate(&committed())
}

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/src/generated")
}

fn generate(out: &Path) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let descriptors = protox::compile(FILES, [root]).context("the proto files do not compile")?;
    std::fs::write(out.join("clew.descriptor.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().bytes(".").out_dir(out).compile_fds(descriptors)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_code_is_what_proto_generates() {
        let fresh = tempfile::tempdir().unwrap();
        generate(fresh.path()).unwrap();
        let mut fresh_files = 0;
        for entry in std::fs::read_dir(fresh.path()).unwrap() {
            let entry = entry.unwrap();
            let old = committed().join(entry.file_name());
            assert!(
                std::fs::read(entry.path()).unwrap() == std::fs::read(&old).unwrap_or_default(),
                "{} is not what proto/ generates; run `make proto`",
                old.display()
            );
            fresh_files += 1;
        }
        assert_eq!(std::fs::read_dir(committed()).unwrap().count(), fresh_files, "a stale file");
    }
}
