//! A graph builder that takes graphs from a file that was made elsewhere.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Account, Cost, Entity, Error, Extraction, ExtractionTask, GraphBuilder, GraphBuilders,
    Relation, Span, Summary, SummaryTask,
};

/// Maximum number of key phrases of a passage.
const MAX_KEY_PHRASES: usize = 10;

/// Graph builders that answer from a file where it covers a passage, and with other graph builders
/// elsewhere.
///
/// A file identifies its passages by titles, which several passages may share, and does not contain
/// their texts. A passage of a document with such a title therefore gets those relations of the
/// title of which it mentions at least one end, and the entities that it mentions.
pub(crate) struct Given {
    by_title: Arc<HashMap<String, Vec<Extraction>>>,
    otherwise: Arc<dyn GraphBuilders>,
}

/// [`Given`] for one account.
struct GivenOn {
    by_title: Arc<HashMap<String, Vec<Extraction>>>,
    otherwise: Arc<dyn GraphBuilder>,
}

impl Given {
    /// Reads a file: GraphML with the fields of LightRAG, or JSON lines as HippoRAG writes them.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming the key `graph_builder.graph` or the
    /// line of the file.
    pub fn read(file: &Path, otherwise: Arc<dyn GraphBuilders>) -> Result<Self, Error> {
        let text = std::fs::read_to_string(file).map_err(|error| {
            let problem = format!("expected a file of text, got `{}`: {error}", file.display());
            Error::invalid("graph_builder.graph", problem).with_source(error)
        })?;
        let mut by_title: HashMap<String, Vec<Extraction>> = HashMap::new();
        for passage in clew_graph::import(&text)?.passages {
            // LightRAG's passages have ids and no titles.
            let title = if passage.title.is_empty() { passage.name } else { passage.title };
            by_title.entry(title).or_default().push(passage.extraction);
        }
        Ok(Self { by_title: Arc::new(by_title), otherwise })
    }
}

impl GraphBuilders for Given {
    fn on(&self, account: &Account) -> Arc<dyn GraphBuilder> {
        let (by_title, otherwise) = (Arc::clone(&self.by_title), self.otherwise.on(account));
        Arc::new(GivenOn { by_title, otherwise })
    }

    fn rehearsal(&self) -> Arc<dyn GraphBuilder> {
        let (by_title, otherwise) = (Arc::clone(&self.by_title), self.otherwise.rehearsal());
        Arc::new(GivenOn { by_title, otherwise })
    }
}

impl GivenOn {
    /// Returns what the file says of a passage, or `None` if it does not cover it.
    fn of(&self, task: &ExtractionTask) -> Option<Extraction> {
        // A question asks for more than a file contains.
        let title = task.background.split('\n').next().unwrap_or_default();
        let told = self.by_title.get(title).filter(|_| task.question.is_empty())?;
        let mut found = Found::new(&task.text);
        for extraction in told {
            for relation in &extraction.relations {
                let ends = [relation.head, relation.tail].map(|end| &extraction.entities[end]);
                if ends.iter().any(|end| found.names(&end.name)) {
                    let [head, tail] = ends.map(|end| found.entity(end));
                    found.relations.push(Relation {
                        head,
                        text: relation.text.clone(),
                        tail,
                        // The file does not say where in the passage the relation stands.
                        evidence: Span::new(0, task.text.len()),
                    });
                }
            }
            for entity in &extraction.entities {
                if found.names(&entity.name) {
                    found.entity(entity);
                }
            }
        }
        let phrases = clew_text::key_phrases(&task.text, MAX_KEY_PHRASES);
        Some(Extraction {
            entities: found.entities,
            relations: found.relations,
            key_phrases: phrases.into_iter().map(clew_text::one_line).collect(),
            vectors: None,
            cost: Cost::default(),
        })
    }
}

/// Entities and relations collected for one passage.
struct Found<'t> {
    text: &'t str,
    lower_case: String,
    entities: Vec<Entity>,
    by_name: HashMap<String, usize>,
    relations: Vec<Relation>,
}

impl<'t> Found<'t> {
    fn new(text: &'t str) -> Self {
        let (entities, relations) = (Vec::new(), Vec::new());
        let lower_case = text.to_lowercase();
        Self { text, lower_case, entities, by_name: HashMap::new(), relations }
    }

    fn names(&self, name: &str) -> bool {
        !name.is_empty() && self.lower_case.contains(&name.to_lowercase())
    }

    /// Returns the index of an entity, adding it if it is new.
    fn entity(&mut self, told: &Entity) -> usize {
        if let Some(at) = self.by_name.get(&told.name) {
            return *at;
        }
        let at = self.text.match_indices(&told.name);
        let mentions = at.map(|(start, name)| Span::new(start, start + name.len())).collect();
        self.by_name.insert(told.name.clone(), self.entities.len());
        self.entities.push(Entity { name: told.name.clone(), kind: told.kind, mentions });
        self.entities.len() - 1
    }
}

#[async_trait]
impl GraphBuilder for GivenOn {
    async fn summarise(
        &self,
        tasks: Vec<SummaryTask>,
        deadline: Instant,
    ) -> Result<Vec<Summary>, Error> {
        self.otherwise.summarise(tasks, deadline).await
    }

    async fn extract(
        &self,
        tasks: Vec<ExtractionTask>,
        deadline: Instant,
    ) -> Result<Vec<Extraction>, Error> {
        let told: Vec<Option<Extraction>> = tasks.iter().map(|task| self.of(task)).collect();
        let unknown = tasks.into_iter().zip(&told).filter(|(_, told)| told.is_none());
        let unknown: Vec<ExtractionTask> = unknown.map(|(task, _)| task).collect();
        let expected = unknown.len();
        let read = match expected {
            0 => Vec::new(),
            _ => self.otherwise.extract(unknown, deadline).await?,
        };
        if read.len() != expected {
            let problem = format!("expected {expected} results, got {}", read.len());
            return Err(Error::internal(problem));
        }
        let mut read = read.into_iter();
        Ok(told.into_iter().filter_map(|told| told.or_else(|| read.next())).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Duration;

    use clew_core::{Budget, Owner};

    use super::*;
    use crate::{ExtractiveGraphBuilder, GraphBuilderConfig};

    const LINES: &str = r#"{"idx": 0, "title": "Ada", "entities": ["Ada", "Lodz"], "triples": [["Ada", "born in", "Lodz"]]}
{"idx": 1, "title": "Ada", "entities": ["Ada (ship)", "Kiel"], "triples": [["Ada (ship)", "launched at", "Kiel"]]}"#;

    fn given(lines: &str) -> Result<Given, Error> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(lines.as_bytes()).unwrap();
        Given::read(
            file.path(),
            Arc::new(ExtractiveGraphBuilder::new(&GraphBuilderConfig::default())),
        )
    }

    fn task(title: &str, text: &str, question: &str) -> ExtractionTask {
        ExtractionTask {
            text: text.to_owned(),
            background: title.to_owned(),
            question: question.to_owned(),
            ..ExtractionTask::default()
        }
    }

    #[tokio::test]
    async fn a_passage_holds_what_the_file_tells_of_it_and_others_are_read() {
        let given = given(LINES).unwrap();
        let tasks = vec![
            task("Ada", "She comes from Lodz.", ""),
            task("Bob", "Carl met Dora.", ""),
            task("Ada\nA ship and her first voyage.", "Built in kiel.", ""),
            task("Ada", "Carl met Dora.", "Whom did Carl meet?"),
        ];
        let account = Account::open(Owner::default(), Budget::UNBOUNDED);
        let given = given.on(&account);
        let found = given.extract(tasks, Instant::now() + Duration::from_secs(60)).await.unwrap();
        let told = |extraction: &Extraction| {
            let relation = &extraction.relations[0];
            let name = |at: usize| extraction.entities[at].name.clone();
            format!("{} {} {}", name(relation.head), relation.text, name(relation.tail))
        };
        let told: Vec<String> = found.iter().map(told).collect();
        let expected =
            ["Ada born in Lodz", "Carl met Dora", "Ada (ship) launched at Kiel", "Carl met Dora"];
        assert_eq!(told, expected);
        let lodz = found[0].entities.iter().find(|entity| entity.name == "Lodz").unwrap();
        assert_eq!(lodz.mentions, [Span::new(15, 19)]);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told() {
        let error = given("{\"idx\": 0}\nno json").err().unwrap();
        assert!(error.message().contains("line"), "{error}");
        let nowhere = Given::read(Path::new("nowhere"), given(LINES).unwrap().otherwise);
        assert_eq!(nowhere.err().unwrap().violations()[0].field, "graph_builder.graph");
    }
}
