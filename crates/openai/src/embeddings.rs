//! `POST /v1/embeddings`: vectors of texts, by the encoder of a corpus or by an embedding model.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clew_core::{CorpusName, Error, Limits};
use clew_http::Failure;
use clew_proto::query::v1::{EmbedRequest, EmbedResponse, TextKind};
use serde::Deserialize;
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::Json;
use crate::caller::{Call, Caller};
use crate::model::ModelId;
use crate::refusal::Refusal;

/// Maximum number of texts, as OpenAI has it.
const MOST_TEXTS: usize = 2048;
/// Maximum number of texts and of their bytes in one call of `Embed`, which takes 128 texts in a
/// message of 4 MiB.
const CALL_TEXTS: usize = 128;
const CALL_BYTES: usize = 2 << 20;
/// Maximum bytes of the vectors of a response, before they are written as JSON.
const MOST_VECTOR_BYTES: usize = 16 << 20;

/// Body of a request. What else a client sends is ignored.
#[derive(Deserialize)]
struct Body {
    model: String,
    input: Value,
    encoding_format: Option<String>,
    dimensions: Option<u64>,
    /// Kind of the texts, `passage` or `query`, as other servers of embeddings call it.
    input_type: Option<String>,
}

/// Texts to embed.
#[derive(Debug, PartialEq)]
struct Wanted {
    model: String,
    texts: Vec<String>,
    kind: TextKind,
    format: Format,
    dimension: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    /// A list of numbers.
    Float,
    /// The bytes of 32-bit floats, little-endian, in base64.
    Base64,
}

/// Embeds texts.
pub(crate) async fn embed(call: Result<Call, Failure>) -> Result<Json, Refusal> {
    let call = call?;
    let wanted = wanted(call.body()?)?;
    let mut embedded: Option<EmbedResponse> = None;
    for texts in batches(&wanted.texts) {
        let part = embed_batch(&call.caller, &wanted, texts).await?;
        check_vectors(&wanted, part.dimension)?;
        match &mut embedded {
            Some(all) => all.embeddings.extend(part.embeddings),
            None => embedded = Some(part),
        }
    }
    let nothing = || Failure::from(Error::internal("no text was embedded"));
    Ok(Json(told(&wanted, &embedded.ok_or_else(nothing)?)))
}

/// Checks a request.
fn wanted(body: Body) -> Result<Wanted, Refusal> {
    let Body { model, input, encoding_format, dimensions, input_type } = body;
    let format = match encoding_format.as_deref() {
        None | Some("float") => Format::Float,
        Some("base64") => Format::Base64,
        Some(other) => {
            let problem = format!("expected `float` or `base64`, got `{other}`");
            return Err(Refusal::param("encoding_format", problem));
        }
    };
    let kind = match input_type.as_deref() {
        None | Some("passage") => TextKind::Passage,
        Some("query") => TextKind::Query,
        Some(other) => {
            let problem = format!("expected `passage` or `query`, got `{other}`");
            return Err(Refusal::param("input_type", problem));
        }
    };
    Ok(Wanted { model, texts: texts(input)?, kind, format, dimension: dimensions })
}

/// Returns the texts of an input: one text, or a list of them. Each is checked here, because a text
/// at fault in a later call would be refused only after earlier ones were embedded.
fn texts(input: Value) -> Result<Vec<String>, Refusal> {
    let token_ids = "expected texts, got token ids, which only the model that they were made for \
                     understands; send texts (LangChain's `OpenAIEmbeddings` does with \
                     `check_embedding_ctx_length=False`)";
    let items = match input {
        Value::String(text) => return Ok(vec![fitting(text, || "input".to_owned())?]),
        Value::Array(items) => items,
        _ => return Err(Refusal::param("input", "expected a text or a list of texts")),
    };
    if !(1..=MOST_TEXTS).contains(&items.len()) {
        let problem = format!("expected 1 to {MOST_TEXTS} texts, got {}", items.len());
        return Err(Refusal::param("input", problem));
    }
    let text = |(place, item)| match item {
        Value::String(text) => fitting(text, || format!("input[{place}]")),
        Value::Number(_) | Value::Array(_) => Err(Refusal::param("input", token_ids)),
        _ => Err(Refusal::param(format!("input[{place}]"), "expected a text")),
    };
    items.into_iter().enumerate().map(text).collect()
}

/// Returns a text that is as long as `Embed` takes it.
fn fitting(text: String, param: impl FnOnce() -> String) -> Result<String, Refusal> {
    let most = Limits::default().passage_bytes;
    match (1..=most).contains(&text.len()) {
        true => Ok(text),
        false => {
            let problem = format!("expected 1 to {most} bytes, got {}", text.len());
            Err(Refusal::param(param(), problem))
        }
    }
}

/// Returns the texts in groups that fit into one call, in order.
fn batches(texts: &[String]) -> Vec<&[String]> {
    let mut batches = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (place, text) in texts.iter().enumerate() {
        if place > start && (place - start == CALL_TEXTS || bytes + text.len() > CALL_BYTES) {
            batches.push(&texts[start..place]);
            (start, bytes) = (place, 0);
        }
        bytes += text.len();
    }
    batches.push(&texts[start..]);
    batches
}

/// Embeds the texts of one call, by the encoder of the corpus of this name or else by the embedding
/// model of this name.
async fn embed_batch(
    caller: &Caller,
    wanted: &Wanted,
    texts: &[String],
) -> Result<EmbedResponse, Refusal> {
    let corpus = ModelId::of(&wanted.model).corpus;
    let request = |corpus: &str, model: &str| EmbedRequest {
        corpus: corpus.to_owned(),
        model: model.to_owned(),
        texts: texts.to_vec(),
        kind: wanted.kind.into(),
    };
    // A model's name need not have the form of a corpus' name.
    if corpus.parse::<CorpusName>().is_ok() {
        match caller.queries().embed(caller.request(request(&corpus, ""))).await {
            Ok(embedded) => return Ok(embedded.into_inner()),
            Err(status) if status.code() == Code::NotFound => {}
            Err(status) => return Err(refusal(status)),
        }
    }
    let embedding = caller.queries().embed(caller.request(request("", &wanted.model))).await;
    Ok(embedding.map_err(refusal)?.into_inner())
}

fn refusal(status: Status) -> Refusal {
    let failure = Failure::from(status);
    match failure.violations.iter().any(|at| at.field == "model") {
        true => Refusal::unknown_model(failure),
        false => failure.into(),
    }
}

/// Refuses vectors of another dimension than was asked for, and more than a response holds.
fn check_vectors(wanted: &Wanted, dimension: u32) -> Result<(), Refusal> {
    if let Some(other) = wanted.dimension.filter(|wanted| *wanted != u64::from(dimension)) {
        let problem = format!("expected {dimension}, which `{}` has, got {other}", wanted.model);
        return Err(Refusal::param("dimensions", problem));
    }
    let most = MOST_VECTOR_BYTES / (dimension.max(1) as usize * size_of::<f32>());
    if wanted.texts.len() > most {
        let got = wanted.texts.len();
        let problem =
            format!("expected at most {most} texts for {dimension} dimensions, got {got}");
        return Err(Refusal::param("input", problem));
    }
    Ok(())
}

/// Returns the body of the response.
fn told(wanted: &Wanted, embedded: &EmbedResponse) -> Value {
    let embeddings = embedded.embeddings.iter().enumerate();
    let data: Vec<Value> = embeddings
        .clone()
        .map(|(index, embedding)| {
            let embedding = vector(wanted.format, &embedding.vector);
            json!({"object": "embedding", "index": index, "embedding": embedding})
        })
        .collect();
    let tokens: u64 = embedded.embeddings.iter().map(|one| u64::from(one.tokens)).sum();
    let truncated: Vec<usize> =
        embeddings.filter(|(_, one)| one.truncated).map(|(index, _)| index).collect();
    json!({
        "object": "list",
        "data": data,
        "model": wanted.model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "clew": {
            "model": embedded.model,
            "dimension": embedded.dimension,
            "truncated": truncated,
        },
    })
}

fn vector(format: Format, bytes: &Bytes) -> Value {
    match format {
        Format::Base64 => Value::from(STANDARD.encode(bytes)),
        Format::Float => {
            let (components, _rest) = bytes.as_chunks::<4>();
            components.iter().map(|component| f32::from_le_bytes(*component)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use clew_proto::query::v1::Embedding;

    use super::*;

    fn parsed(body: Value) -> Result<Wanted, Value> {
        let body = serde_json::from_value(body).unwrap();
        wanted(body).map_err(|refusal| refusal.body()["error"].clone())
    }

    #[test]
    fn an_input_is_a_text_or_a_list_of_texts() {
        let one = parsed(json!({"model": "m", "input": "a", "user": "u"})).unwrap();
        assert_eq!((one.texts, one.format), (vec!["a".to_owned()], Format::Float));
        let two = json!({"model": "m", "input": ["a", "b"], "encoding_format": "base64"});
        let two = parsed(two).unwrap();
        assert_eq!((two.texts.len(), two.format), (2, Format::Base64));
    }

    #[test]
    fn token_ids_are_refused_with_the_flag_to_set() {
        for input in [json!([1, 2]), json!([[1, 2], [3]])] {
            let refused = parsed(json!({"model": "m", "input": input})).unwrap_err();
            let message = refused["message"].as_str().unwrap();
            assert!(message.contains("check_embedding_ctx_length=False"), "{message}");
            assert_eq!(refused["param"], "input");
        }
    }

    #[test]
    fn other_inputs_are_refused_by_name() {
        for (body, param) in [
            (json!({"model": "m", "input": []}), "input"),
            (json!({"model": "m", "input": null}), "input"),
            (json!({"model": "m", "input": ["a", {}]}), "input[1]"),
            (json!({"model": "m", "input": ""}), "input"),
            (json!({"model": "m", "input": ["a", ""]}), "input[1]"),
            (json!({"model": "m", "input": ["x".repeat((64 << 10) + 1)]}), "input[0]"),
            (json!({"model": "m", "input": vec!["a"; 2049]}), "input"),
            (json!({"model": "m", "input": "a", "encoding_format": "hex"}), "encoding_format"),
            (json!({"model": "m", "input": "a", "input_type": "x"}), "input_type"),
        ] {
            assert_eq!(parsed(body).unwrap_err()["param"], param);
        }
    }

    #[test]
    fn calls_are_as_large_as_they_may_be_and_no_larger() {
        let texts = |count: usize, bytes: usize| vec!["x".repeat(bytes); count];
        let sizes =
            |texts: &[String]| batches(texts).iter().map(|texts| texts.len()).collect::<Vec<_>>();
        assert_eq!(sizes(&texts(1, 1)), [1]);
        assert_eq!(sizes(&texts(300, 1)), [128, 128, 44]);
        assert_eq!(sizes(&texts(100, 64 << 10)), [32, 32, 32, 4]);
        assert_eq!(sizes(&texts(2, CALL_BYTES + 1)), [1, 1]);
    }

    #[test]
    fn a_vector_has_the_same_numbers_in_both_formats() {
        let wanted = |format| Wanted {
            model: "m".to_owned(),
            texts: vec!["a".to_owned(), "b".to_owned()],
            kind: TextKind::Passage,
            format,
            dimension: None,
        };
        let embedding = |truncated| Embedding {
            vector: [0.5_f32, -1.0].iter().flat_map(|one| one.to_le_bytes()).collect(),
            tokens: 3,
            truncated,
        };
        let embedded = EmbedResponse {
            model: "Mini".to_owned(),
            dimension: 2,
            embeddings: vec![embedding(false), embedding(true)],
            ..Default::default()
        };
        let floats = told(&wanted(Format::Float), &embedded);
        assert_eq!(
            floats["data"][1],
            json!({"object": "embedding", "index": 1, "embedding": [0.5, -1.0]})
        );
        assert_eq!(floats["usage"]["prompt_tokens"], 6);
        assert_eq!(floats["clew"]["truncated"], json!([1]));
        let coded = told(&wanted(Format::Base64), &embedded);
        assert_eq!(coded["data"][0]["embedding"], "AAAAPwAAgL8=");
    }

    #[test]
    fn a_dimension_that_the_model_lacks_is_refused() {
        let asked = |dimension| {
            let body = json!({"model": "m", "input": "a", "dimensions": dimension});
            check_vectors(&parsed(body).unwrap(), 384)
        };
        asked(384).unwrap();
        assert_eq!(asked(256).unwrap_err().body()["error"]["param"], "dimensions");
        let many = parsed(json!({"model": "m", "input": vec!["a"; 2000]})).unwrap();
        check_vectors(&many, 384).unwrap();
        assert_eq!(check_vectors(&many, 4096).unwrap_err().body()["error"]["param"], "input");
    }
}
