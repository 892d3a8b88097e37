//! Tests of readers on other nodes, over real servers on loopback.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

mod wired;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    Account, Budget, Error, ErrorKind, NoReader, Owner, PassageRead, PassagesRead, ReadPassage,
    SpanReader,
};
use clew_memory_encoder::service::EncoderEndpoint;
use clew_memory_encoder::{EncoderConfig, EncoderPools, OwnReader, ReaderConfig};
use clew_remote::RemoteReader;
use clew_testkit::{write_tiny_bert, write_tiny_reader};

use crate::wired::{Server, pool, set, soon};

const QUESTION: &str = "who lives by the river?";

fn config() -> EncoderConfig {
    EncoderConfig { threads: 1, ..EncoderConfig::default() }
}

async fn pools(folder: &Path) -> EncoderPools {
    write_tiny_bert(folder, 3).unwrap();
    EncoderPools::load(Some(folder.to_owned()), &config()).await.unwrap()
}

fn passages(texts: impl IntoIterator<Item = String>) -> Vec<ReadPassage> {
    let passage = |text| ReadPassage { heading: "a house".to_owned(), text };
    texts.into_iter().map(passage).collect()
}

async fn serve(pools: &EncoderPools, reader: Arc<dyn SpanReader>) -> Server {
    Server::start(EncoderEndpoint::of_pools(pools, 32).with_reader(reader)).await
}

/// Reader that counts the passages that it was given, and finds nothing in them. It can be taken
/// away.
#[derive(Default)]
struct Counts {
    is_gone: AtomicBool,
    passages: AtomicUsize,
}

impl Counts {
    fn check(&self) -> Result<(), Error> {
        match self.is_gone.load(Ordering::SeqCst) {
            true => Err(NoReader::refusal()),
            false => Ok(()),
        }
    }

    fn passages(&self) -> usize {
        self.passages.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl SpanReader for Counts {
    async fn reader_model(&self, _: Instant) -> Result<Option<String>, Error> {
        Ok(self.check().ok().map(|()| "counts".to_owned()))
    }

    async fn read_spans(
        &self,
        _: &str,
        passages: Vec<ReadPassage>,
        _: Instant,
    ) -> Result<PassagesRead, Error> {
        self.check()?;
        self.passages.fetch_add(passages.len(), Ordering::SeqCst);
        let read = vec![PassageRead::default(); passages.len()];
        Ok(PassagesRead { passages: read, tokens: passages.len() as u64 })
    }
}

#[tokio::test]
async fn passages_are_read_elsewhere_as_here_also_when_an_encoder_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let pools = pools(folder.path()).await;
    let adapter = folder.path().join("reader.safetensors");
    write_tiny_reader(folder.path(), &adapter, &["dog"]).unwrap();
    let named = ReaderConfig { adapter: Some(adapter), ..ReaderConfig::default() };
    let own = OwnReader::load(&named, Some(folder.path()), &config()).await.unwrap();
    let here = own.seam();
    let servers = [serve(&pools, Arc::clone(&here)).await, serve(&pools, Arc::clone(&here)).await];
    let members = vec![servers[0].member("a"), servers[1].member("b")];
    let there = RemoteReader::new(pool("readers", members).await);
    assert_eq!(there.reader_model(soon()).await.unwrap(), here.reader_model(soon()).await.unwrap());
    let animal = |i: usize| if i.is_multiple_of(3) { "dog" } else { "cat" };
    let texts = (0..50).map(|i| format!("{} the old {}", "by the river".repeat(i % 9), animal(i)));
    let passages = passages(texts.chain([String::new()]));
    let expected = here.read_spans(QUESTION, passages.clone(), soon()).await.unwrap();
    let account = Account::open(Owner::of(None), Budget::UNBOUNDED);
    let there = account.reading(Arc::new(there));
    for is_one_lost in [false, true] {
        if is_one_lost {
            servers[0].kill();
        }
        let read = there.read_spans(QUESTION, passages.clone(), soon()).await.unwrap();
        assert_eq!(read.tokens, expected.tokens);
        assert_eq!(read.passages.len(), passages.len());
        for (i, (read, expected)) in read.passages.iter().zip(&expected.passages).enumerate() {
            assert!((read.answers - expected.answers).abs() < 1e-3, "{read:?}, not {expected:?}");
            assert_eq!(read.answers > 0.9, i % 3 == 0 && i < 50, "{i}: {read:?}");
            if read.answers > 0.9 {
                assert_eq!(read.spans[0].span.of(&passages[i].text), Some("dog"));
            }
        }
    }
    // The tokens of both questions are spent.
    assert_eq!(account.ledger().cost().reranked_tokens, 2 * expected.tokens);
    own.stop().await;
}

#[tokio::test]
async fn only_encoders_that_have_a_reader_are_given_passages() {
    let folder = tempfile::tempdir().unwrap();
    let pools = pools(folder.path()).await;
    let readers: [Arc<Counts>; 3] = Default::default();
    readers[0].is_gone.store(true, Ordering::SeqCst);
    let mut servers = Vec::new();
    for reader in &readers {
        servers.push(serve(&pools, Arc::clone(reader) as _).await);
    }
    let names = ["a", "b", "c"];
    let members = |which: &[usize]| which.iter().map(|&i| servers[i].member(names[i])).collect();
    let encoders = pool("readers", members(&[0, 1, 2])).await;
    let there = RemoteReader::new(encoders.clone());
    let read = async |count: usize| {
        let passages = passages((0..count).map(|i| format!("house {i}")));
        there.read_spans(QUESTION, passages, soon()).await.map(|read| read.tokens)
    };
    for _ in 0..4 {
        assert_eq!(read(160).await.unwrap(), 160);
    }
    assert_eq!(there.reader_model(soon()).await.unwrap().as_deref(), Some("counts"));
    let counts = || readers.each_ref().map(|reader| reader.passages());
    let [none, second, third] = counts();
    assert_eq!((none, second + third), (0, 640));
    assert!(second > 0 && third > 0, "they share the work: {second} and {third}");

    // One loses its reader, which shows when it is given passages.
    readers[1].is_gone.store(true, Ordering::SeqCst);
    for _ in 0..4 {
        assert_eq!(read(160).await.unwrap(), 160);
    }
    assert_eq!(counts(), [0, second, third + 640]);

    // The last one leaves, and another has a reader by now.
    readers[0].is_gone.store(false, Ordering::SeqCst);
    set(&encoders, members(&[0, 1])).await;
    assert_eq!(read(1).await.unwrap(), 1);
    assert_eq!(counts(), [1, second, third + 640]);

    readers[0].is_gone.store(true, Ordering::SeqCst);
    let refused = read(1).await.unwrap_err();
    assert_eq!((refused.kind(), refused.reason()), (ErrorKind::WrongState, "NO_READER"));
}

/// Reader that is being loaded for as long as the test lasts.
struct Loads;

#[async_trait]
impl SpanReader for Loads {
    async fn reader_model(&self, deadline: Instant) -> Result<Option<String>, Error> {
        tokio::time::sleep_until(deadline.into()).await;
        Err(Error::deadline("loading the reader"))
    }

    async fn read_spans(
        &self,
        _: &str,
        _: Vec<ReadPassage>,
        deadline: Instant,
    ) -> Result<PassagesRead, Error> {
        Err(self.reader_model(deadline).await.unwrap_err())
    }
}

#[tokio::test]
async fn nobody_waits_for_an_encoder_that_loads_its_reader_while_another_has_one() {
    let folder = tempfile::tempdir().unwrap();
    let pools = pools(folder.path()).await;
    let reader = Arc::new(Counts::default());
    let loads = serve(&pools, Arc::new(Loads)).await;
    let counts = serve(&pools, Arc::clone(&reader) as _).await;
    let there =
        RemoteReader::new(pool("readers", vec![loads.member("a"), counts.member("b")]).await);
    let asked = Instant::now();
    let passages = passages((0..40).map(|i| format!("house {i}")));
    assert_eq!(there.read_spans(QUESTION, passages, soon()).await.unwrap().tokens, 40);
    assert_eq!(reader.passages(), 40);
    // An encoder has up to ten seconds for its answer.
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn encoders_without_a_reader_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&pools(folder.path()).await, Arc::new(NoReader)).await;
    let there = RemoteReader::new(pool("readers", vec![server.member("a")]).await);
    assert_eq!(there.reader_model(soon()).await.unwrap(), None);
    let one = passages(["p".to_owned()]);
    let refused = there.read_spans(QUESTION, one, soon()).await.unwrap_err();
    assert_eq!((refused.kind(), refused.reason()), (ErrorKind::WrongState, "NO_READER"));
    let nothing = there.read_spans(QUESTION, Vec::new(), soon()).await.unwrap();
    assert_eq!(nothing, PassagesRead::default());
}

#[tokio::test]
async fn a_request_that_no_client_of_ours_sends_is_refused() {
    use clew_proto::encoder::v1::ReadSpansRequest;
    use clew_proto::encoder::v1::encoder_service_client::EncoderServiceClient;
    let folder = tempfile::tempdir().unwrap();
    let reader = Arc::new(Counts::default());
    let server = serve(&pools(folder.path()).await, Arc::clone(&reader) as _).await;
    let (_, address) = server.member("a");
    let mut client = EncoderServiceClient::connect(address).await.unwrap();
    let refused = client.read_spans(ReadSpansRequest::default()).await.unwrap_err();
    let error = clew_proto::from_status(&refused);
    assert_eq!(error.fields_at_fault(), ["question", "passages"]);
    assert_eq!(reader.passages(), 0);
}
