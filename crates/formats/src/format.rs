//! The registry of formats.
//!
//! To add a format, write its file in `format/` like one of the others, and add a `mod` line, a
//! variant, a place in `ALL` and an arm of `entry`.

mod arrow_ipc;
mod comma_separated;
mod html;
mod json_lines;
mod markdown;
mod parquet;
mod pdf;
mod plain_text;
mod rust_source;

use std::path::Path;
use std::str::FromStr;

use clew_core::Error;

use crate::reader::Reader;

/// A file format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileFormat {
    /// Text in any common encoding.
    PlainText,
    /// CommonMark.
    Markdown,
    /// A web page. Its headings, lists and quotations are kept as Markdown.
    Html,
    /// JSON Lines: one object per line.
    JsonLines,
    /// Comma-separated values with a header row.
    Csv,
    /// A Parquet table.
    Parquet,
    /// An Arrow IPC file or stream.
    ArrowIpc,
    /// A PDF that contains text. Scanned pages contain none.
    Pdf,
    /// The doc comments of a Rust source file.
    RustSource,
}

/// Entry of a format in the registry.
pub(crate) struct Entry {
    /// Name on the command line.
    name: &'static str,
    /// Extensions of its files, in lower case.
    extensions: &'static [&'static str],
    reader: Reader,
}

const ALL: [FileFormat; 9] = [
    FileFormat::PlainText,
    FileFormat::Markdown,
    FileFormat::Html,
    FileFormat::JsonLines,
    FileFormat::Csv,
    FileFormat::Parquet,
    FileFormat::ArrowIpc,
    FileFormat::Pdf,
    FileFormat::RustSource,
];

impl FileFormat {
    fn entry(self) -> &'static Entry {
        match self {
            Self::PlainText => &plain_text::ENTRY,
            Self::Markdown => &markdown::ENTRY,
            Self::Html => &html::ENTRY,
            Self::JsonLines => &json_lines::ENTRY,
            Self::Csv => &comma_separated::ENTRY,
            Self::Parquet => &parquet::ENTRY,
            Self::ArrowIpc => &arrow_ipc::ENTRY,
            Self::Pdf => &pdf::ENTRY,
            Self::RustSource => &rust_source::ENTRY,
        }
    }

    /// Returns every format.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.into_iter()
    }

    /// Returns the format's name on the command line.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Returns the extensions of the format's files, in lower case and without the full stop.
    pub fn extensions(self) -> &'static [&'static str] {
        self.entry().extensions
    }

    /// Returns the format that has the extension of `path`, ignoring case.
    pub fn of_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Self::all().find(|format| format.extensions().contains(&extension.as_str()))
    }

    /// Returns whether a file of the format holds many documents, one per row.
    pub fn has_rows(self) -> bool {
        matches!(self.reader(), Reader::Rows(_))
    }

    pub(crate) fn reader(self) -> &'static Reader {
        &self.entry().reader
    }
}

impl FromStr for FileFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::all().find(|format| format.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::all().map(Self::name).collect();
            Error::invalid("format", format!("expected one of {}, got `{name}`", names.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_extensions_belong_to_one_format() {
        for format in FileFormat::all() {
            assert_eq!(format.name().parse::<FileFormat>().unwrap(), format);
            for extension in format.extensions() {
                let path = format!("a/b.{}", extension.to_uppercase());
                assert_eq!(FileFormat::of_path(Path::new(&path)), Some(format));
            }
        }
        assert_eq!(FileFormat::of_path(Path::new("Makefile")), None);
        assert!("word".parse::<FileFormat>().is_err());
    }
}
