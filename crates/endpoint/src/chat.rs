//! The wire format of chat completions.
//!
//! Source: OpenAI's API reference, "Create chat completion" and "chat.completion.chunk". The reader
//! is tolerant. It recognises a streamed response by its first byte, not by its content type. A
//! server may stream or not, may leave out the usage and the closing `[DONE]`, and may use its own
//! names for the reasons why a reply ended.

use bytes::Bytes;
use clew_core::{Error, ErrorKind, Finish, GenerationRequest, Heard};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::connection::{Failure, Progress, Reader};
use crate::payload;
use crate::sse::Decoder;

/// Upper bound of the bytes of a token in the texts that models are asked for.
pub(crate) const BYTES_PER_TOKEN: usize = 16;
/// Bytes that a reply may have beyond that bound, for replies of few tokens.
const SLACK_BYTES: usize = 1 << 10;
/// Maximum number of bytes of one event, or of a whole response that is not streamed, beyond its
/// text.
const MOST_EVENT_BYTES: usize = 1 << 20;
/// Maximum number of bytes sent for one token: its event with all names, probabilities and
/// thoughts.
const SENT_BYTES_PER_TOKEN: usize = 4 << 10;

/// Message of a conversation.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Message {
    pub(crate) role: &'static str,
    pub(crate) content: String,
}

/// Body of a request. Parameters that OpenAI's servers do not know are sent only if they have an
/// effect.
#[derive(Debug, Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: &'a [Message],
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repetition_penalty: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<&'a Value>,
    stream: bool,
    stream_options: StreamOptions,
}

#[derive(Debug, Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// Returns the body of a request to `model` for a reply to `messages`, which replace those of
/// `request`. With `thinking_tokens`, the body has neither sampling parameters (except the seed)
/// nor stop texts, because models that think before they reply refuse them.
pub(crate) fn body(
    model: &str,
    messages: &[Message],
    request: &GenerationRequest,
    response_format: Option<&Value>,
    thinking_tokens: u32,
) -> Result<Bytes, Error> {
    let thinks = thinking_tokens > 0;
    let sampling = Some(request.sampling).filter(|_| !thinks);
    let most = request.max_tokens.saturating_add(thinking_tokens);
    payload::json(&Body {
        model,
        messages,
        max_tokens: Some(most).filter(|_| !thinks),
        max_completion_tokens: Some(most).filter(|_| thinks),
        temperature: sampling.map(|sampling| sampling.temperature),
        top_p: sampling.map(|sampling| sampling.top_p).filter(|p| *p < 1.0),
        top_k: sampling.map(|sampling| sampling.top_k).filter(|k| *k > 0),
        repetition_penalty: sampling
            .map(|sampling| sampling.repetition_penalty)
            .filter(|penalty| *penalty > 1.0),
        seed: request.sampling.seed,
        stop: if thinks { &[] } else { &request.stop },
        response_format,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
    })
}

/// One event of a streamed reply, or the whole body of a reply that is not streamed.
#[derive(Deserialize)]
struct Piece {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Tokens>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    /// Present in a streamed reply.
    delta: Option<Said>,
    /// Present in a reply that is not streamed.
    message: Option<Said>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Said {
    content: Option<String>,
}

/// Token counts of the server.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Tokens {
    #[serde(rename = "prompt_tokens")]
    pub(crate) prompt: u64,
    #[serde(rename = "completion_tokens", default)]
    pub(crate) completion: u64,
}

/// Reply of the model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) text: String,
    pub(crate) finish: Finish,
    /// Token counts, if the server reported them.
    pub(crate) tokens: Option<Tokens>,
}

/// Reader of a reply that passes the text to `heard` as it arrives.
pub(crate) struct ReplyReader<'a> {
    heard: &'a mut (dyn FnMut(Heard<'_>) + Send),
    most_text_bytes: usize,
    most_sent_bytes: usize,
    /// Whether text was passed to `heard`.
    is_heard: bool,
    sent_bytes: usize,
    form: Form,
    text: String,
    /// Whether a choice arrived, even one without text.
    has_choice: bool,
    finish: Option<Finish>,
    tokens: Option<Tokens>,
}

/// Form of a response.
enum Form {
    /// Only white space has arrived.
    Unknown,
    /// A stream of events.
    Events(Decoder),
    /// One JSON object.
    Whole(Vec<u8>),
}

impl<'a> ReplyReader<'a> {
    /// Creates a reader of a reply of at most `max_tokens` tokens. It stops reading if the server
    /// sends much more than that.
    pub(crate) fn new(max_tokens: u32, heard: &'a mut (dyn FnMut(Heard<'_>) + Send)) -> Self {
        let of_tokens = |bytes: usize, slack| {
            usize::try_from(max_tokens)
                .unwrap_or(usize::MAX)
                .saturating_mul(bytes)
                .saturating_add(slack)
        };
        Self {
            heard,
            most_text_bytes: of_tokens(BYTES_PER_TOKEN, SLACK_BYTES),
            most_sent_bytes: of_tokens(SENT_BYTES_PER_TOKEN, MOST_EVENT_BYTES),
            is_heard: false,
            sent_bytes: 0,
            form: Form::Unknown,
            text: String::new(),
            has_choice: false,
            finish: None,
            tokens: None,
        }
    }

    fn most_event_bytes(&self) -> usize {
        self.most_text_bytes.saturating_mul(2).saturating_add(MOST_EVENT_BYTES)
    }

    fn event(&mut self, data: &[u8]) -> Result<Progress, Failure> {
        if data.trim_ascii() == b"[DONE]" {
            if self.has_choice {
                self.finish.get_or_insert(Finish::Stop);
            }
            return Ok(Progress::Done);
        }
        self.piece(data)
    }

    fn piece(&mut self, json: &[u8]) -> Result<Progress, Failure> {
        // The parser's error is dropped, because it may quote the reply.
        let piece: Piece = serde_json::from_slice(json)
            .map_err(|_| Failure::broken("sent what is not a chat completion"))?;
        if piece.error.is_some_and(|error| !error.is_null()) {
            return Err(Failure::broken("told an error in place of a reply"));
        }
        self.tokens = piece.usage.or(self.tokens);
        let Some(choice) = piece.choices.into_iter().next() else { return Ok(Progress::More) };
        self.has_choice = true;
        let said = choice.delta.or(choice.message).and_then(|said| said.content);
        if let Some(text) = said.filter(|text| !text.is_empty())
            && self.say(&text) == Progress::Done
        {
            return Ok(Progress::Done);
        }
        if let Some(reason) = choice.finish_reason {
            self.finish = Some(finish(&reason)?);
        }
        Ok(Progress::More)
    }

    /// Appends `text` up to the limit of the reply. Returns [`Progress::Done`] if that cuts it.
    fn say(&mut self, text: &str) -> Progress {
        let room = self.most_text_bytes - self.text.len();
        let kept = &text[..text.floor_char_boundary(room)];
        self.text.push_str(kept);
        if !kept.is_empty() {
            self.is_heard = true;
            (self.heard)(Heard::Text(kept));
        }
        if kept.len() == text.len() {
            return Progress::More;
        }
        self.finish = Some(Finish::Length);
        Progress::Done
    }
}

impl Reader for ReplyReader<'_> {
    type Reply = Reply;

    fn ask(&mut self) {
        (self.heard)(Heard::Asked);
    }

    fn begin(&mut self) {
        if std::mem::take(&mut self.is_heard) {
            (self.heard)(Heard::Anew);
        }
        self.sent_bytes = 0;
        self.form = Form::Unknown;
        self.text.clear();
        self.has_choice = false;
        self.finish = None;
        self.tokens = None;
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        self.sent_bytes = self.sent_bytes.saturating_add(bytes.len());
        if self.sent_bytes > self.most_sent_bytes {
            return Err(Failure::broken("sent far more than it was asked for"));
        }
        let bytes = match self.form {
            Form::Unknown => {
                let bytes = bytes.trim_ascii_start();
                match bytes.first() {
                    None => return Ok(Progress::More),
                    Some(b'{') => self.form = Form::Whole(Vec::new()),
                    Some(_) => self.form = Form::Events(Decoder::new(self.most_event_bytes())),
                }
                bytes
            }
            Form::Events(_) | Form::Whole(_) => bytes,
        };
        let most_bytes = self.most_event_bytes();
        let mut events = Vec::new();
        match &mut self.form {
            Form::Events(decoder) => decoder
                .feed(bytes, &mut events)
                .map_err(|_| Failure::broken("sent an event of far too many bytes"))?,
            Form::Whole(whole) if whole.len() + bytes.len() > most_bytes => {
                return Err(Failure::broken("sent far more than it was asked for"));
            }
            Form::Whole(whole) => whole.extend_from_slice(bytes),
            Form::Unknown => {}
        }
        for event in events {
            if self.event(&event)? == Progress::Done {
                return Ok(Progress::Done);
            }
        }
        Ok(Progress::More)
    }

    fn end(&mut self) -> Result<Reply, Failure> {
        // A reply that reached its limit or its finish reason is complete.
        match std::mem::replace(&mut self.form, Form::Unknown) {
            _ if self.finish.is_some() => {}
            Form::Unknown => return Err(Failure::broken("sent an empty response")),
            Form::Whole(whole) => drop(self.piece(&whole)?),
            Form::Events(decoder) => {
                if let Some(event) = decoder.end() {
                    self.event(&event)?;
                }
            }
        }
        if !self.has_choice {
            return Err(Failure::broken("sent what is not a chat completion"));
        }
        let Some(finish) = self.finish else {
            return Err(Failure::broken("stopped in the middle of a reply"));
        };
        Ok(Reply { text: std::mem::take(&mut self.text), finish, tokens: self.tokens })
    }
}

/// Maps a finish reason, in the words of OpenAI and of others.
fn finish(reason: &str) -> Result<Finish, Failure> {
    match reason {
        "length" | "max_tokens" => Ok(Finish::Length),
        "content_filter" => {
            let message = "the filter of the model's endpoint withheld the reply";
            Err(Failure::lasting(Error::new(ErrorKind::InvalidInput, "CONTENT_FILTERED", message)))
        }
        "error" | "abort" => Err(Failure::broken("gave up in the middle of a reply")),
        _ => Ok(Finish::Stop),
    }
}

#[cfg(test)]
mod tests {
    use clew_core::Sampling;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const STREAM: &str = concat!(
        ": comment\n\n",
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"Gr\u{fc}\u{df} \"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"dich\"},\"finish_reason\":\"length\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\n",
        "data: [DONE]\n\n",
    );

    /// Reads a response that arrives in `pieces`. Returns the reply and the text that was heard of
    /// it.
    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Result<Reply, Failure>, String) {
        let mut told = String::new();
        let mut heard = |part: Heard<'_>| match part {
            Heard::Asked => {}
            Heard::Text(text) => told.push_str(text),
            Heard::Anew => told.clear(),
        };
        let mut reader = ReplyReader::new(10, &mut heard);
        reader.begin();
        let mut pieces = pieces.into_iter();
        let read = pieces.try_for_each(|piece| match reader.feed(piece) {
            Ok(Progress::More) => Ok(()),
            Ok(Progress::Done) => Err(None),
            Err(failure) => Err(Some(failure)),
        });
        let reply = match read {
            Err(Some(failure)) => Err(failure),
            Ok(()) | Err(None) => reader.end(),
        };
        (reply, told)
    }

    fn reason(response: &str) -> String {
        read([response.as_bytes()]).0.unwrap_err().error.reason().to_owned()
    }

    #[test]
    fn a_reply_is_read_streamed_or_whole() {
        let text = "Grüß dich".to_owned();
        let tokens = Some(Tokens { prompt: 5, completion: 2 });
        let (reply, heard) = read([STREAM.as_bytes()]);
        assert_eq!(heard, text);
        assert_eq!(reply.unwrap(), Reply { text: text.clone(), finish: Finish::Length, tokens });
        let whole = json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]});
        let (reply, heard) = read([whole.to_string().as_bytes()]);
        assert_eq!(heard, text);
        assert_eq!(reply.unwrap(), Reply { text, finish: Finish::Stop, tokens: None });
    }

    #[test]
    fn the_end_is_known_by_the_reason_or_by_the_last_word() {
        let said = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
        let ended = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"eos\"}]}";
        for end in [ended, "data: [DONE]"] {
            let reply = read([format!("{said}{end}").as_bytes()]).0.unwrap();
            assert_eq!((reply.text.as_str(), reply.finish), ("a", Finish::Stop));
        }
        assert_eq!(reason(said), "ENDPOINT_FAILED");
    }

    #[test]
    fn what_is_no_reply_is_an_error_that_does_not_show_it() {
        let filtered = r#"{"choices":[{"message":{},"finish_reason":"content_filter"}]}"#;
        assert_eq!(reason(filtered), "CONTENT_FILTERED");
        let broken = [
            "",
            "<html>hush</html>",
            "data: [DONE]\n\n",
            "data: hush\n\n",
            r#"{"choices": []}"#,
            r#"{"hush""#,
            r#"{"error": {"message": "hush"}}"#,
            "data: {\"error\": \"hush\"}\n\n",
        ];
        for response in broken {
            let failure = read([response.as_bytes()]).0.unwrap_err();
            assert_eq!(failure.error.reason(), "ENDPOINT_FAILED", "{response}");
            assert!(!format!("{failure:?}").contains("hush"), "{failure:?}");
        }
    }

    #[test]
    fn a_server_that_does_not_stop_is_cut_off() {
        let event = "data: {\"choices\":[{\"delta\":{\"content\":\"and on \u{e9} \"}}]}\n\n";
        let (reply, heard) = read(std::iter::repeat_n(event.as_bytes(), 1 << 20));
        let reply = reply.unwrap();
        assert_eq!(reply.finish, Finish::Length);
        assert!((1180..=10 * BYTES_PER_TOKEN + SLACK_BYTES).contains(&reply.text.len()));
        assert_eq!(heard, reply.text);
        for endless in ["data: {\"choices\":[]}\n\n", ": comment\n", "data: x", "{ "] {
            let (reply, _) = read(std::iter::repeat_n(endless.as_bytes(), 1 << 21));
            assert_eq!(reply.unwrap_err().error.reason(), "ENDPOINT_FAILED", "{endless}");
        }
    }

    #[test]
    fn beginning_anew_voids_what_was_heard() {
        let mut parts = Vec::new();
        let mut heard = |part: Heard<'_>| parts.push(format!("{part:?}"));
        let mut reader = ReplyReader::new(10, &mut heard);
        for _ in 0..2 {
            reader.begin();
            reader.feed(STREAM.as_bytes()).unwrap();
        }
        assert_eq!(reader.end().unwrap().text, "Grüß dich");
        let once = ["Text(\"Grüß \")", "Text(\"dich\")"];
        assert_eq!(parts, [once[0], once[1], "Anew", once[0], once[1]]);
    }

    #[test]
    fn parameters_that_do_nothing_are_not_sent() {
        let message = Message { role: "user", content: "Hello".to_owned() };
        let mut request = GenerationRequest { max_tokens: 5, ..GenerationRequest::default() };
        let sent = |request: &GenerationRequest| -> Value {
            let bytes = body("m", std::slice::from_ref(&message), request, None, 0).unwrap();
            serde_json::from_slice(&bytes).unwrap()
        };
        let expected = json!({
            "model": "m",
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 5,
            "temperature": 0.0,
            "stream": true,
            "stream_options": {"include_usage": true}
        });
        assert_eq!(sent(&request), expected);
        request.sampling = Sampling { top_p: 0.5, top_k: 3, seed: Some(7), ..Sampling::default() };
        request.stop = vec!["END".to_owned()];
        let all = sent(&request);
        for (key, value) in [("top_p", json!(0.5)), ("top_k", json!(3)), ("seed", json!(7))] {
            assert_eq!(all[key], value, "{key}");
        }
        assert_eq!(all["stop"], json!(["END"]));
        let thinking = body("m", std::slice::from_ref(&message), &request, None, 1000).unwrap();
        let expected = json!({
            "model": "m",
            "messages": [{"role": "user", "content": "Hello"}],
            "max_completion_tokens": 1005,
            "seed": 7,
            "stream": true,
            "stream_options": {"include_usage": true}
        });
        assert_eq!(serde_json::from_slice::<Value>(&thinking).unwrap(), expected);
    }

    proptest! {
        #[test]
        fn however_a_response_is_cut_the_reply_is_the_same(
            cuts in prop::collection::vec(0..STREAM.len(), 0..20),
        ) {
            let bytes = STREAM.as_bytes();
            let mut cuts = cuts;
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let (reply, heard) = read(cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]));
            prop_assert_eq!(reply.unwrap().text, "Grüß dich");
            prop_assert_eq!(heard, "Grüß dich");
        }
    }
}
