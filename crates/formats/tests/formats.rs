//! Reads every format back from generated files. Broken files must be reported, and no input may
//! crash a reader.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int64Array, ListBuilder, RecordBatch, StringArray, StringBuilder,
    TimestampMicrosecondArray, UInt64Array,
};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use clew_core::{AttributeValue, Document, Limits, MediaType, SourceVersion};
use clew_formats::{Columns, FileFormat, Options, Problem, Source, Unreadable, read};
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;

fn read_bytes(bytes: impl Into<Vec<u8>>, format: FileFormat) -> Vec<Result<Document, Unreadable>> {
    read(Source::bytes("file", bytes.into()), format, &Options::default()).collect()
}

fn documents(bytes: impl Into<Vec<u8>>, format: FileFormat) -> Vec<Document> {
    read_bytes(bytes, format).into_iter().map(Result::unwrap).collect()
}

fn only(bytes: impl Into<Vec<u8>>, format: FileFormat) -> Document {
    let mut documents = documents(bytes, format);
    assert_eq!(documents.len(), 1);
    documents.remove(0)
}

fn problem(bytes: impl Into<Vec<u8>>, format: FileFormat) -> Unreadable {
    let mut outcomes = read_bytes(bytes, format);
    assert_eq!(outcomes.len(), 1, "{outcomes:?}");
    outcomes.remove(0).unwrap_err()
}

fn attribute(document: &Document, name: &str) -> Option<AttributeValue> {
    let found = document.attributes.iter().find(|(known, _)| known.as_str() == name);
    found.map(|(_, value)| value.clone())
}

#[test]
fn whole_files_are_one_document_called_after_the_file() {
    let text = only("Just text.\n", FileFormat::PlainText);
    assert_eq!((text.id.as_str(), text.text.as_str()), ("file", "Just text.\n"));
    assert_eq!((text.media_type, text.title.as_str()), (MediaType::Plain, ""));
    let markdown = only("# Title\n\nBody.\n", FileFormat::Markdown);
    assert_eq!((markdown.media_type, markdown.title.as_str()), (MediaType::Markdown, "Title"));
    let rust = only("//! Docs.\nfn main() {}\n", FileFormat::RustSource);
    assert_eq!((rust.text.as_str(), rust.title.as_str()), ("Docs.\n", "file"));
    assert!(read_bytes("fn main() {}\n", FileFormat::RustSource).is_empty());
}

#[test]
fn web_pages_keep_their_sections() {
    let page = "<html><head><title>Caf\u{e9} &amp; more</title><style>p { color: red }</style></head>\
        <body><h1>Top</h1><p>One <b>bold</b> &lt;word&gt; and a <a href=\"/x\">link</a>.</p>\
        <h2>Part</h2><ul><li>first</li><li>second</li></ul><script>alert(1)</script>\
        <table><tr><td>a</td><td>b</td></tr></table></body></html>";
    let document = only(page, FileFormat::Html);
    assert_eq!(document.title, "Café & more");
    assert_eq!(document.media_type, MediaType::Markdown);
    for expected in
        ["# Top\n", "One bold <word> and a [link].\n", "\n## Part\n", "* first\n* second\n", "a\n"]
    {
        assert!(document.text.contains(expected), "{expected:?} in {:?}", document.text);
    }
    assert!(!document.text.contains("alert") && !document.text.contains("color"));
}

#[test]
fn legacy_encodings_are_read_in_every_text_format() {
    let text = "Le cœur a ses raisons que la raison ne connaît point; déjà vu à l’été.";
    let legacy = encoding_rs::WINDOWS_1252.encode(text).0.into_owned();
    assert_eq!(only(legacy, FileFormat::PlainText).text, text);
    let rows = format!("text,title\n\"{text}\",Pensées\n");
    let csv = only(encoding_rs::WINDOWS_1252.encode(&rows).0.into_owned(), FileFormat::Csv);
    assert_eq!((csv.text.as_str(), csv.title.as_str()), (text, "Pensées"));
}

#[test]
fn json_lines_are_documents_and_bad_ones_are_passed_over() {
    let lines = concat!(
        r##"{"id":"a","text":"# One","title":"T","media_type":"text/markdown","event_time":"2024-05-20","attributes":{"lang":"en","n":3,"rate":"0.5","no":null},"attribute_types":{"rate":"number"},"year":1999,"draft":true,"big":18446744073709551615,"gone":null}"##,
        "\n\n{broken\n",
        r#"{"text":"two"}"#,
        "\n",
        r#"{"text":"three","tags":["x"],"event_time":"yesterday"}"#,
        "\n[1]\n{\"text\":\"  \"}\n",
        r#"{"id":"last","text":"no line break behind"}"#,
    );
    let outcomes = read_bytes(lines, FileFormat::JsonLines);
    let (good, bad): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    let good: Vec<Document> = good.into_iter().map(Result::unwrap).collect();
    let ids: Vec<&str> = good.iter().map(|document| document.id.as_str()).collect();
    assert_eq!(ids, ["a", "file#4", "last"]);
    assert_eq!(good[0].media_type, MediaType::Markdown);
    assert_eq!(good[0].event_time.unwrap().to_string(), "2024-05-20T00:00:00Z");
    let expected = [
        ("lang", Some("en".into())),
        ("n", Some(3.into())),
        ("rate", AttributeValue::number(0.5)),
        ("no", None),
        ("attribute_types", None),
        ("year", Some(1999.into())),
        ("draft", Some(true.into())),
        ("big", Some("18446744073709551615".into())),
        ("gone", None),
    ];
    for (name, value) in expected {
        assert_eq!(attribute(&good[0], name), value, "{name}");
    }
    let mistyped = r#"{"text":"x","attributes":{"n":"three"},"attribute_types":{"n":"integer"}}"#;
    assert!(problem(mistyped, FileFormat::JsonLines).to_string().contains("`n`"));

    let bad: Vec<Unreadable> = bad.into_iter().map(Result::unwrap_err).collect();
    let places: Vec<String> = bad.iter().map(|unreadable| unreadable.place.to_string()).collect();
    assert_eq!(places, ["file:3", "file:5", "file:6", "file:7"]);
    let Problem::Refused(error) = &bad[1].problem else { panic!("{:?}", bad[1]) };
    let mut fields = error.fields_at_fault();
    fields.sort_unstable();
    assert_eq!(fields, ["tags", "time"]);
}

#[test]
fn labels_come_as_a_list_or_one_text_and_what_is_none_is_refused() {
    let lines = concat!(
        r#"{"text":"one","labels":["b","a"]}"#,
        "\n",
        r#"{"text":"two","labels":"a, c"}"#,
        "\n",
        r#"{"text":"three","labels":null}"#,
        "\n",
        r#"{"text":"four","labels":["A"]}"#,
        "\n",
        r#"{"text":"five","labels":[1]}"#,
        "\n",
        r#"{"text":"six","labels":{"a":"b"}}"#,
    );
    let outcomes = read_bytes(lines, FileFormat::JsonLines);
    let labels: Vec<Option<String>> = outcomes
        .iter()
        .map(|outcome| outcome.as_ref().ok().map(|document| document.labels.to_string()))
        .collect();
    let good = ["a,b", "a,c", ""].map(|labels| Some(labels.to_owned()));
    assert_eq!(labels, [good.to_vec(), vec![None; 3]].concat());
    let csv = only("text,labels\nfour,\"x,y\"\n".to_owned(), FileFormat::Csv);
    assert_eq!(csv.labels.to_string(), "x,y");
}

#[test]
fn the_number_of_the_source_is_read_from_every_format_with_columns() {
    let lines = concat!(
        r#"{"text":"one","source_version":18446744073709551615}"#,
        "\n",
        r#"{"text":"two","source_version":"7"}"#,
        "\n",
        r#"{"text":"three","source_version":null}"#,
        "\n",
        r#"{"text":"four","source_version":-1}"#,
        "\n",
        r#"{"text":"five","source_version":"1.2.0"}"#,
        "\n",
        r#"{"text":"six","source_version":1.5}"#,
    );
    let outcomes = read_bytes(lines, FileFormat::JsonLines);
    let numbers: Vec<Option<Option<u64>>> = outcomes
        .iter()
        .map(|outcome| Some(outcome.as_ref().ok()?.source_version.map(|number| number.0)))
        .collect();
    let good = [Some(Some(u64::MAX)), Some(Some(7)), Some(None)];
    assert_eq!(numbers, [good, [None; 3]].concat());
    let problem = outcomes[4].as_ref().unwrap_err().to_string();
    assert!(problem.contains("source_version") && problem.contains("1.2.0"), "{problem}");

    let csv = only("text,source_version\none,12\n".to_owned(), FileFormat::Csv);
    assert_eq!(csv.source_version, Some(SourceVersion(12)));
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("text", Arc::new(StringArray::from(vec!["one", "two"])) as ArrayRef, false),
        ("offset", Arc::new(UInt64Array::from(vec![Some(u64::MAX), None])), true),
    ])
    .unwrap();
    let columns = Columns { source_version: "offset".to_owned(), ..Columns::default() };
    let options = Options { columns, ..Options::default() };
    for (bytes, format) in [
        (as_parquet(&batch), FileFormat::Parquet),
        (as_arrow_file(&batch), FileFormat::ArrowIpc),
        (as_arrow_stream(&batch), FileFormat::ArrowIpc),
    ] {
        let read = read(Source::bytes("file", bytes), format, &options).map(Result::unwrap);
        let read: Vec<Document> = read.collect();
        let numbers: Vec<_> = read.iter().map(|document| document.source_version).collect();
        assert_eq!(numbers, [Some(SourceVersion(u64::MAX)), None]);
        assert!(read.iter().all(|document| document.attributes.is_empty()));
    }
}

#[test]
fn a_line_that_is_too_long_does_not_hide_the_next() {
    let limits = Limits { document_bytes: 100, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let lines = format!("{{\"text\":\"{}\"}}\n{{\"text\":\"short\"}}\n", "x".repeat(2 << 20));
    let outcomes: Vec<_> =
        read(Source::bytes("file", lines.into_bytes()), FileFormat::JsonLines, &options).collect();
    assert!(matches!(outcomes[0].as_ref().unwrap_err().problem, Problem::TooLarge { .. }));
    assert_eq!(outcomes[1].as_ref().unwrap().text, "short");
}

#[test]
fn csv_rows_are_documents() {
    let bytes = b"body,key,year\n\"one, with \"\"quotes\"\"\nand a break\",k1,1999\n\
        two,,\nthree,k3\nfour,k4,2000\n"
        .to_vec();
    let columns = Columns { text: "body".to_owned(), id: "key".to_owned(), ..Columns::default() };
    let options = Options { columns, ..Options::default() };
    let outcomes: Vec<_> = read(Source::bytes("t.csv", bytes), FileFormat::Csv, &options).collect();
    let first = outcomes[0].as_ref().unwrap();
    assert_eq!(first.text, "one, with \"quotes\"\nand a break");
    assert_eq!((first.id.as_str(), attribute(first, "year")), ("k1", Some("1999".into())));
    assert_eq!(outcomes[1].as_ref().unwrap().id.as_str(), "t.csv#2");
    assert_eq!(outcomes[2].as_ref().unwrap_err().place.to_string(), "t.csv:3");
    assert_eq!(outcomes[3].as_ref().unwrap().text, "four");
    assert!(problem("a,b\n1,2\n", FileFormat::Csv).to_string().contains("column"));
}

fn table() -> RecordBatch {
    let column = |array: ArrayRef| array;
    RecordBatch::try_from_iter_with_nullable([
        ("id", column(Arc::new(StringArray::from(vec![Some("r1"), None]))), true),
        ("text", column(Arc::new(StringArray::from(vec!["first", "second"]))), false),
        ("year", column(Arc::new(Int64Array::from(vec![Some(1999), None]))), true),
        ("rate", column(Arc::new(Float64Array::from(vec![0.5, 2.0]))), false),
        (
            "event_time",
            column(Arc::new(TimestampMicrosecondArray::from(vec![Some(1_000_000), None]))),
            true,
        ),
    ])
    .unwrap()
}

fn as_parquet(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn as_arrow_file(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = FileWriter::try_new(Cursor::new(Vec::new()), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap().into_inner()
}

fn as_arrow_stream(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn tables_are_documents() {
    let batch = table();
    for (bytes, format) in [
        (as_parquet(&batch), FileFormat::Parquet),
        (as_arrow_file(&batch), FileFormat::ArrowIpc),
        (as_arrow_stream(&batch), FileFormat::ArrowIpc),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        std::fs::write(&path, &bytes).unwrap();
        let from_disk: Vec<Document> =
            read(Source::file("file", path), format, &Options::default())
                .map(Result::unwrap)
                .collect();
        let documents = documents(bytes, format);
        assert_eq!(from_disk, documents);
        let ids: Vec<&str> = documents.iter().map(|document| document.id.as_str()).collect();
        assert_eq!(ids, ["r1", "file#2"]);
        assert_eq!(documents[1].text, "second");
        assert_eq!(attribute(&documents[0], "year"), Some(1999.into()));
        assert_eq!(attribute(&documents[0], "rate"), AttributeValue::number(0.5));
        assert_eq!(attribute(&documents[1], "year"), None);
        assert_eq!(documents[0].event_time.unwrap().to_string(), "1970-01-01T00:00:01Z");
    }
}

#[test]
fn columns_without_a_place_are_refused_unless_ignored() {
    let mut tags = ListBuilder::new(StringBuilder::new());
    tags.append_value([Some("x")]);
    let batch = RecordBatch::try_from_iter([
        ("text", Arc::new(StringArray::from(vec!["one"])) as ArrayRef),
        ("tags", Arc::new(tags.finish()) as ArrayRef),
    ])
    .unwrap();
    assert!(problem(as_parquet(&batch), FileFormat::Parquet).to_string().contains("`tags`"));
    let columns = Columns { ignored: vec!["tags".to_owned()], ..Columns::default() };
    let options = Options { columns, ..Options::default() };
    let source = Source::bytes("file", as_parquet(&batch));
    let documents: Vec<_> = read(source, FileFormat::Parquet, &options).collect();
    assert_eq!(documents[0].as_ref().unwrap().text, "one");
}

/// Returns a PDF of the given objects, numbered from 1; the first is the document catalogue.
fn pdf(objects: &[String]) -> Vec<u8> {
    let mut file = "%PDF-1.4\n".to_owned();
    let mut offsets = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        offsets.push(file.len());
        write!(file, "{} 0 obj\n{object}\nendobj\n", index + 1).unwrap();
    }
    let table = file.len();
    write!(file, "xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).unwrap();
    for offset in offsets {
        writeln!(file, "{offset:010} 00000 n ").unwrap();
    }
    let size = objects.len() + 1;
    write!(file, "trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n").unwrap();
    file.into_bytes()
}

fn pdf_page(content: &str, drawings: &[String]) -> Vec<u8> {
    let stream = |dictionary: &str, content: &str| {
        format!("<< {dictionary} /Length {} >>\nstream\n{content}\nendstream", content.len())
    };
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents 4 0 R \
         /Resources << /Font << /F 5 0 R >> /XObject << /X 6 0 R >> >> >>"
            .to_owned(),
        stream("", content),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
            .to_owned(),
    ];
    for drawing in drawings {
        let dictionary = format!("/Type /XObject /Subtype /Form /BBox [0 0 9 9] {drawing}");
        objects.push(stream(&dictionary, "/X Do"));
    }
    pdf(&objects)
}

#[test]
fn text_of_pdf_is_read() {
    let content = "BT /F 12 Tf 20 200 Td (Hello from a page) Tj ET";
    let document = only(pdf_page(content, &[]), FileFormat::Pdf);
    assert!(document.text.contains("Hello from a page"), "{:?}", document.text);
    assert!(matches!(problem(pdf_page("", &[]), FileFormat::Pdf).problem, Problem::NoText));
}

#[test]
fn drawings_that_draw_themselves_are_refused() {
    for resources in ["/Resources << /XObject << /X 6 0 R >> >>", ""] {
        let unreadable = problem(pdf_page("/X Do", &[resources.to_owned()]), FileFormat::Pdf);
        assert!(unreadable.to_string().contains("drawings"), "{unreadable}");
    }
}

#[test]
fn broken_files_are_reported() {
    for format in FileFormat::all().filter(|format| *format != FileFormat::RustSource) {
        assert_eq!(problem("\0\u{1}\u{2}\u{3}", format).place.to_string(), "file", "{format:?}");
    }
    for format in [FileFormat::PlainText, FileFormat::Markdown, FileFormat::Html] {
        assert!(matches!(problem(" \n", format).problem, Problem::NoText), "{format:?}");
        let limits = Limits { document_bytes: 10, ..Limits::default() };
        let options = Options { limits, ..Options::default() };
        let long = Source::bytes("file", vec![b'x'; 100]);
        let outcome = read(long, format, &options).next().unwrap();
        assert!(matches!(outcome.unwrap_err().problem, Problem::TooLarge { .. }), "{format:?}");
    }
    let parquet = as_parquet(&table());
    assert!(
        problem(&parquet[..parquet.len() - 9], FileFormat::Parquet).to_string().contains("Parquet")
    );
    let absent = Source::file("gone", "/nonexistent/file");
    let outcome = read(absent, FileFormat::Csv, &Options::default()).next().unwrap();
    assert!(matches!(outcome.unwrap_err().problem, Problem::Io(_)));
}

#[test]
fn deep_pages_are_refused_before_they_are_parsed() {
    for page in ["<div>".repeat(100_000), "<div>x".repeat(300), "<p><b>".repeat(100_000)] {
        assert!(problem(page, FileFormat::Html).to_string().contains("nested"));
    }
}

fn any_file() -> impl Strategy<Value = Vec<u8>> {
    let seeds = vec![
        as_parquet(&table()),
        as_arrow_file(&table()),
        as_arrow_stream(&table()),
        pdf_page("BT /F 12 Tf 20 200 Td (Hello) Tj ET", &[]),
        b"{\"id\":\"a\",\"text\":\"b\"}\n".to_vec(),
        b"id,text\na,\"b\"\n".to_vec(),
        b"<h1>a</h1><table><tr><td>b</table>".to_vec(),
    ];
    let damaged = (
        proptest::sample::select(seeds),
        proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6),
    )
        .prop_map(|(mut bytes, changes)| {
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            bytes
        });
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..300), damaged]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_bring_a_reader_down(bytes in any_file()) {
        for format in FileFormat::all() {
            for outcome in read_bytes(bytes.clone(), format).into_iter().flatten() {
                prop_assert!(!outcome.text.trim().is_empty());
            }
        }
    }
}
