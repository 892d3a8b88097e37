//! Rehearsals: cost estimates without calling a model.

use async_trait::async_trait;
use clew_core::{
    Account, Extraction, ExtractionTask, GraphBuilder, GraphBuilders, Summary, SummaryLevel,
    SummaryTask,
};

use super::super::*;
use super::runner::{Scripted, soon};

const PASSAGE: &str = "Ada Winter met Carl Brandt in Bergen. The harbour was closed for nine days. \
                       Carl Brandt sold the warehouse to Dora Keller. Nobody had counted the herring.";

/// A graph builder that works by rules.
struct Rules;

#[async_trait]
impl GraphBuilder for Rules {
    async fn summarise(&self, tasks: Vec<SummaryTask>, _: Instant) -> Result<Vec<Summary>, Error> {
        Ok(tasks.iter().map(clew_text::summarise).collect())
    }

    async fn extract(
        &self,
        tasks: Vec<ExtractionTask>,
        _: Instant,
    ) -> Result<Vec<Extraction>, Error> {
        Ok(tasks.iter().map(clew_graph::extract).collect())
    }
}

fn passage() -> Vec<ExtractionTask> {
    vec![ExtractionTask { text: PASSAGE.to_owned(), ..ExtractionTask::default() }]
}

fn builders(model: &Arc<Scripted>, questions: usize) -> Arc<dyn GraphBuilders> {
    let model: Arc<dyn Generator> = Arc::clone(model) as Arc<dyn Generator>;
    Prompted::new(model).with_questions(questions).into_graph_builders(Arc::new(Rules))
}

#[tokio::test]
async fn every_act_of_reading_is_rehearsed_and_no_model_is_asked() {
    let model = Scripted::new(100_000, &[]);
    let told = clew_graph::extract(&passage()[0]);
    let found = builders(&model, 0).rehearsal().extract(passage(), soon()).await.unwrap();
    assert_eq!(found[0].cost.model_calls, 2, "entities, then relations");
    let names = |of: &Extraction| of.entities.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&found[0]), names(&told));
    assert_eq!(found[0].relations.len(), told.relations.len());
    // Both acts again for each of two questions, and the call that asks them.
    let found = builders(&model, 2).rehearsal().extract(passage(), soon()).await.unwrap();
    assert_eq!(found[0].cost.model_calls, 2 + 1 + 2 * 2);
    let task =
        SummaryTask { level: SummaryLevel::Leaf, parts: vec![PASSAGE.to_owned()], max_bytes: 80 };
    let summaries = builders(&model, 0).rehearsal().summarise(vec![task.clone()], soon()).await;
    let summary = &summaries.unwrap()[0];
    assert_eq!((&summary.text, summary.cost.model_calls), (&clew_text::summarise(&task).text, 1));
    assert!(summary.cost.prompt_tokens > 40 && summary.cost.completion_tokens > 0);
    assert!(model.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_rehearsal_costs_what_a_model_takes_that_says_the_same() {
    let rehearsed = builders(&Scripted::new(100_000, &[]), 0).rehearsal();
    let expected = rehearsed.extract(passage(), soon()).await.unwrap().remove(0);
    let entity = |entity: &clew_core::Entity| format!(r#"{{"name": "{}"}}"#, entity.name);
    let entities: Vec<String> = expected.entities.iter().map(entity).collect();
    let entities = format!(r#"{{"entities": [{}]}}"#, entities.join(", "));
    let model = Scripted::new(100_000, &[&entities, r#"{"relations": []}"#]);
    let account = Account::open(Owner::default(), Budget::UNBOUNDED);
    let builders = builders(&model, 0);
    let read = builders.on(&account).extract(passage(), soon()).await.unwrap().remove(0);
    assert_eq!(read.cost.model_calls, expected.cost.model_calls);
    let asked = model.asked.lock().unwrap();
    let bytes = |request: &GenerationRequest| {
        request.messages.iter().map(|it| it.text.len().div_ceil(4) as u64).sum::<u64>()
    };
    assert_eq!(asked.iter().map(bytes).sum::<u64>(), expected.cost.prompt_tokens);
}
