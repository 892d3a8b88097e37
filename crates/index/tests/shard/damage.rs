//! Tests that damaged and unfitting folders cause errors that say so.

use std::fs;
use std::path::{Path, PathBuf};

use clew_core::{Access, ErrorKind};
use clew_index::{Error, TableKind, Tuning};

use crate::fixture::{Fixture, Search, document, open, settings, with_dimension};

async fn filled() -> Fixture {
    let mut fixture = Fixture::new().await;
    fixture.ingest(vec![document("a", "apricot\nbasalt"), document("b", "cobalt")], 1).await;
    fixture
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

/// Opens the shard and searches it. Returns the error of the step that fails.
async fn error_of(fixture: &Fixture) -> Error {
    match fixture.open().await {
        Err(error) => error,
        Ok(shard) => {
            let reader = shard.reader();
            let query = Search { limit: 3, exact: true, ..Search::new("apricot") }.query();
            reader.with_access(&Access::all()).candidates(&query).await.unwrap_err()
        }
    }
}

#[tokio::test]
async fn a_damaged_table_is_data_loss_and_not_a_panic() {
    type Damage = fn(&Path);
    let cases: [(&str, Damage); 6] = [
        ("a truncated manifest", |table| {
            let newest = files(&table.join("_versions")).remove(0);
            let bytes = fs::read(&newest).unwrap();
            fs::write(&newest, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("a manifest of noise", |table| {
            let newest = files(&table.join("_versions")).remove(0);
            fs::write(&newest, [0xa5; 200]).unwrap();
        }),
        ("no manifest", |table| fs::remove_dir_all(table.join("_versions")).unwrap()),
        ("no data file", |table| fs::remove_dir_all(table.join("data")).unwrap()),
        ("a truncated data file", |table| {
            for file in files(&table.join("data")) {
                let bytes = fs::read(&file).unwrap();
                fs::write(&file, &bytes[..bytes.len() / 3]).unwrap();
            }
        }),
        ("data files of noise", |table| {
            for file in files(&table.join("data")) {
                let length = fs::metadata(&file).unwrap().len() as usize;
                fs::write(&file, vec![0x5a; length]).unwrap();
            }
        }),
    ];
    for table in ["sources", "chunks"] {
        for (name, damage) in &cases {
            let fixture = filled().await;
            damage(&fixture.folder.join(format!("{table}.lance")));
            let error = error_of(&fixture).await;
            assert_eq!(error.kind(), ErrorKind::DataLoss, "{name} of {table}: {error:?}");
            assert!(error.to_string().contains(table), "{name} of {table}: {error}");
        }
    }
}

#[tokio::test]
async fn an_empty_newest_manifest_is_a_torn_commit_and_is_healed() {
    let mut fixture = filled().await;
    let sources = fixture.folder.join("sources.lance/_versions");
    let before = files(&sources).len();
    let counts = fixture.reader().counts();
    fixture
        .shard
        .accept(vec![document("c", "never acknowledged")], clew_core::Timestamp::from_micros(9))
        .await
        .unwrap();
    let manifests: Vec<_> = files(&sources)
        .into_iter()
        .filter(|file| file.extension().is_some_and(|e| e == "manifest"))
        .collect();
    fs::write(&manifests[0], "").unwrap();
    fixture.reopen().await;
    assert_eq!(fixture.reader().counts(), counts);
    assert_eq!(files(&sources).len(), before);
    fixture.ingest(vec![document("c", "again")], 10).await;
    assert_eq!(fixture.reader().counts().documents, 3);
}

#[tokio::test]
async fn another_dimension_is_a_mismatch_that_names_the_table() {
    let fixture = filled().await;
    let other = with_dimension(32, Tuning::default());
    match open(&fixture.folder, other).await.unwrap_err() {
        Error::Mismatch { table, expected, found } => {
            assert_eq!(table, TableKind::Chunks);
            assert!(expected.contains("32") && found.contains("16"), "{expected} {found}");
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_unavailable_and_not_lost() {
    // A file where the folder should be.
    let temporary = tempfile::tempdir().unwrap();
    let place = temporary.path().join("shard-0");
    fs::write(&place, "").unwrap();
    let error = open(&place, settings(Tuning::default())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}
