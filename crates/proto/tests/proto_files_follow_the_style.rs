//! Test of the style of the proto files: the rules of a proto linter, checked on descriptors.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use prost::Message;
use protox::prost_reflect::prost_types::{FileDescriptorProto, FileDescriptorSet};

fn ours() -> Vec<FileDescriptorProto> {
    let set = FileDescriptorSet::decode(clew_proto::FILE_DESCRIPTOR_SET).unwrap();
    set.file.into_iter().filter(|file| file.package().starts_with("clew.")).collect()
}

#[test]
fn every_definition_is_documented() {
    let mut undocumented = Vec::new();
    for file in ours() {
        for location in &file.source_code_info.as_ref().expect("comments are kept").location {
            // Paths that end in a definition: messages are 4, enums 5, services 6; members follow.
            let defines = matches!(
                location.path.as_slice(),
                [4..=6, _] | [4, _, 2 | 8, _] | [5 | 6, _, 2, _]
            );
            if defines && location.leading_comments().trim().is_empty() {
                undocumented.push(format!("{} {:?}", file.name(), location.path));
            }
        }
    }
    assert!(undocumented.is_empty(), "without a comment: {undocumented:#?}");
}

#[test]
fn packages_folders_services_and_enums_are_named_by_the_rules() {
    for file in ours() {
        let folder = file.name().rsplit_once('/').map_or("", |(folder, _)| folder);
        assert_eq!(folder.replace('/', "."), file.package(), "package = folder");
        assert!(file.package().ends_with(".v1"));
        // Messages that two packages share have a file without a service: imports have no cycles.
        assert!(file.service.len() <= 1, "one service per file: {}", file.name());
        for service in &file.service {
            assert!(service.name().ends_with("Service"));
            for method in &service.method {
                let message = |suffix| format!(".{}.{}{suffix}", file.package(), method.name());
                assert_eq!(method.input_type(), message("Request"));
                assert_eq!(method.output_type(), message("Response"));
            }
        }
        for declared in &file.enum_type {
            let prefix = upper_snake(declared.name());
            assert_eq!(declared.value[0].name(), format!("{prefix}_UNSPECIFIED"));
            assert_eq!(declared.value[0].number(), 0);
            assert!(declared.value.iter().all(|value| value.name().starts_with(&prefix)));
        }
        for message in &file.message_type {
            for field in &message.field {
                assert!(
                    field
                        .name()
                        .bytes()
                        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                    "{}.{}",
                    message.name(),
                    field.name()
                );
            }
        }
    }
}

fn upper_snake(camel: &str) -> String {
    let mut name = String::new();
    for (i, letter) in camel.chars().enumerate() {
        if i > 0 && letter.is_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}
