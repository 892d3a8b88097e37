//! Small data sets on disk, for the tests of the readers.

use std::io;
use std::path::{Path, PathBuf};

use super::{DatasetFormat, Haystack};
use crate::Error;

pub(super) struct Files(tempfile::TempDir);

impl Files {
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, contents) in files {
            let mut file = std::fs::File::create(folder.path().join(name)).unwrap();
            if name.ends_with(".gz") {
                let mut packer =
                    flate2::read::GzEncoder::new(contents.as_bytes(), flate2::Compression::fast());
                io::copy(&mut packer, &mut file).unwrap();
            } else {
                io::copy(&mut contents.as_bytes(), &mut file).unwrap();
            }
        }
        Self(folder)
    }

    pub(super) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(super) fn read(
        &self,
        format: &str,
        unit: Option<&str>,
        split: Option<&str>,
    ) -> Result<Vec<Haystack>, Error> {
        self.read_at(self.folder(), format, unit, split)
    }

    pub(super) fn read_at(
        &self,
        path: &Path,
        format: &str,
        unit: Option<&str>,
        split: Option<&str>,
    ) -> Result<Vec<Haystack>, Error> {
        let unit = unit.map(str::parse).transpose()?;
        DatasetFormat::named(format)?.open(path, unit, split)?.collect()
    }
}

pub(super) fn ids(haystack: &Haystack) -> Vec<&str> {
    haystack.units.iter().map(|unit| unit.id.as_str()).collect()
}

pub(super) fn texts(haystack: &Haystack) -> Vec<&str> {
    haystack.units.iter().map(|unit| unit.text.as_str()).collect()
}

pub(super) fn gold<'a>(haystack: &'a Haystack, question: &str) -> Vec<&'a str> {
    let question = haystack.questions.iter().find(|q| q.id == question).unwrap();
    question.gold.iter().map(|id| id.as_str()).collect()
}
