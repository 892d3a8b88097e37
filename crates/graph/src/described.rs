//! Descriptions of entities: the texts by which entities are compared.

use std::collections::{BTreeMap, BTreeSet};

use clew_core::{EntityKey, Extraction};

use crate::key::entity_key;

/// Maximum number of relations that describe an entity. A vector of very many relations describes
/// none.
pub(crate) const MOST_RELATIONS: usize = 4;
/// Maximum size of a description in bytes.
const MOST_BYTES: usize = 400;

/// Returns the text by which an entity is compared: its name and its description, which may be
/// empty.
pub fn entity_text(name: &str, description: &str) -> String {
    match description.is_empty() {
        true => name.to_owned(),
        false => format!("{name}: {description}"),
    }
}

/// Joins the texts of relations into a description, each once.
pub(crate) fn description(relations: impl IntoIterator<Item = String>) -> String {
    let mut said: Vec<String> = Vec::new();
    for relation in relations {
        if said.len() == MOST_RELATIONS {
            break;
        }
        if !said.contains(&relation) {
            said.push(relation);
        }
    }
    let mut description = said.join("; ");
    description.truncate(description.floor_char_boundary(MOST_BYTES));
    description
}

/// Entity of several extractions, with the text by which it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedEntity {
    /// Key of the entity.
    pub key: EntityKey,
    /// Index of the extraction that first names it.
    pub extraction: usize,
    /// Index of the entity in that extraction.
    pub entity: u32,
    /// Name of the entity, and its relations in the extractions.
    pub text: String,
}

/// Returns the entities of one document's extractions, each once, in the order of their first
/// mentions, without those that are `known`.
pub fn describe(extractions: &[&Extraction], known: &BTreeSet<EntityKey>) -> Vec<DescribedEntity> {
    let mut places: BTreeMap<EntityKey, usize> = BTreeMap::new();
    let mut found: Vec<(DescribedEntity, Vec<String>)> = Vec::new();
    for (at, extraction) in extractions.iter().enumerate() {
        let name = |index: usize| extraction.entities.get(index).map(|entity| entity.name.as_str());
        for (index, entity) in (0..).zip(&extraction.entities) {
            let Some(key) = entity_key(&entity.name).filter(|key| !known.contains(key)) else {
                continue;
            };
            let place = *places.entry(key.clone()).or_insert(found.len());
            if place == found.len() {
                let text = entity.name.clone();
                let described = DescribedEntity { key, extraction: at, entity: index, text };
                found.push((described, Vec::new()));
            }
            let said = extraction
                .relations
                .iter()
                .filter(|relation| [relation.head, relation.tail].contains(&(index as usize)));
            let words = said.filter_map(|relation| {
                Some(format!("{} {} {}", name(relation.head)?, relation.text, name(relation.tail)?))
            });
            found[place].1.extend(words.take(MOST_RELATIONS));
        }
    }
    let described = |(entity, said): (DescribedEntity, Vec<String>)| DescribedEntity {
        text: entity_text(&entity.text, &description(said)),
        ..entity
    };
    found.into_iter().map(described).collect()
}
