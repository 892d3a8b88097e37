//! Pages of a search: where a page begins, and the token by which a client asks for it.
//!
//! A token is all that there is of a search that is read page by page, so any gateway continues it,
//! after any time. It says two things:
//!
//! - the names of the states of the shards that the first page ranked, so that later pages rank the
//!   same states as long as the shards keep them;
//! - a digest of each result that was returned, so that none comes twice and none is left out, even
//!   if a shard does not have its state any more and ranks another one.
//!
//! ```text
//! byte 0       version
//! bytes 1..9   check, which depends on the caller's tenant, the query and all that follows
//! bytes 9..11  number of shards, little-endian
//! then         4 bytes for each shard, little-endian: the name of its state, or 0
//! then         6 bytes for each result that was returned
//! ```
//!
//! The check is no secret, and needs none. Whoever makes a token up can leave results out of their
//! own search and name a state of a shard, in which they see what they may see anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use clew_core::{
    ChunkId, CorpusName, DocumentId, Error, Evidence, Grouping, Hit, Limits, Query, ShardIndex,
    TenantName, ViewName,
};
use clew_proto::convert::{bytes_of_token, token_of};

/// Version of the format. A token of another one is refused.
const VERSION: u8 = 1;
const CHECK: usize = 8;
const HEAD: usize = 1 + CHECK + 2;
const NAME: usize = 4;
const DIGEST: usize = 6;

/// Digest of a result: of the chunk's id, or of the document's if documents are ranked. With 6
/// bytes, two among 1,000 results are the same once in 500 million searches.
type Digest = [u8; DIGEST];

/// Where a page of results begins. The default is the first page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageStart {
    /// Names of the states of the shards that earlier pages ranked.
    pub views: BTreeMap<ShardIndex, ViewName>,
    /// Results of earlier pages.
    returned: BTreeSet<Digest>,
}

impl PageStart {
    /// Returns the number of results of earlier pages.
    pub fn len(&self) -> usize {
        self.returned.len()
    }

    /// Returns whether a hit of a search was returned by an earlier page.
    pub fn has_returned(&self, hit: &Hit, grouping: Grouping) -> bool {
        self.returned.contains(&digest(grouping, hit.chunk_id, &hit.document_id))
    }

    /// Returns where the page begins that follows this one. `views` are the states that were ranked
    /// for this page. A shard that did not answer keeps the name that it had.
    pub fn after(
        &self,
        evidence: &[Evidence],
        grouping: Grouping,
        views: BTreeMap<ShardIndex, ViewName>,
    ) -> Self {
        let mut next = self.clone();
        next.views.extend(views);
        let digests = evidence.iter().map(|of| digest(grouping, of.chunk_id, &of.document_id));
        next.returned.extend(digests);
        next
    }

    /// Reads the token of a page of `search`. An empty token is that of the first page.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] naming `page_token` if it is none that
    /// [`Self::token`] returned for this search.
    pub fn read(token: &str, search: &Search<'_>, limits: &Limits) -> Result<Self, Error> {
        if token.is_empty() {
            return Ok(Self::default());
        }
        let read = bytes_of_token(token).and_then(|bytes| Self::parse(&bytes, search, limits));
        read.ok_or_else(|| {
            let problem = "expected the next_page_token of an earlier response to this search, with the same \
                           corpus, query, mode, filter, grouping and `exact`; to search anew, leave it empty";
            Error::invalid("page_token", problem)
        })
    }

    fn parse(bytes: &[u8], search: &Search<'_>, limits: &Limits) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        let [VERSION, check @ .., low, high] = head else { return None };
        if *check != search.check(&bytes[1 + CHECK..]) {
            return None;
        }
        let shards = usize::from(u16::from_le_bytes([*low, *high]));
        let (names, digests) = rest.split_at_checked(shards * NAME)?;
        let (names, _) = names.as_chunks::<NAME>();
        let (digests, odd) = digests.as_chunks::<DIGEST>();
        if !odd.is_empty() || digests.len() >= limits.results {
            return None;
        }
        let name = |(shard, name): (u32, &[u8; NAME])| {
            Some((ShardIndex(shard), ViewName::new(u32::from_le_bytes(*name))?))
        };
        let views = (0..).zip(names).filter_map(name).collect();
        Some(Self { views, returned: digests.iter().copied().collect() })
    }

    /// Returns the token of this page of `search`.
    pub fn token(&self, search: &Search<'_>) -> String {
        let shards = self.views.keys().last().map_or(0, |last| last.0 + 1);
        let mut body = u16::try_from(shards).unwrap_or(0).to_le_bytes().to_vec();
        for shard in 0..shards {
            let name = self.views.get(&ShardIndex(shard)).copied();
            body.extend(ViewName::number(name).to_le_bytes());
        }
        body.extend(self.returned.iter().flatten());
        token_of(&[&[VERSION], &search.check(&body)[..], &body].concat())
    }
}

/// Search whose pages are read: what has to be the same for all of them. The number of results of a
/// page may change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search<'a> {
    /// The caller's tenant.
    pub tenant: Option<&'a TenantName>,
    /// Corpus, as the caller names it.
    pub corpus: &'a CorpusName,
    /// The query.
    pub query: &'a Query,
}

impl Search<'_> {
    fn check(&self, body: &[u8]) -> [u8; CHECK] {
        let mut hashed = Hashed(blake3::Hasher::new_derive_key("clew search page v1"));
        let Query { text, k: _, mode, filter, grouping, exact, rerank } = self.query;
        self.tenant.map(TenantName::as_str).hash(&mut hashed);
        self.corpus.as_str().hash(&mut hashed);
        (text, mode, filter, grouping, exact, rerank, body).hash(&mut hashed);
        let mut check = [0; CHECK];
        hashed.0.finalize_xof().fill(&mut check);
        check
    }
}

/// A hash of values by BLAKE3, the same in every process of a release.
struct Hashed(blake3::Hasher);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let mut first = [0; 8];
        self.0.finalize_xof().fill(&mut first);
        u64::from_le_bytes(first)
    }
}

/// Returns the digest of a result that is a chunk, or stands for its document.
fn digest(grouping: Grouping, chunk: ChunkId, document: &DocumentId) -> Digest {
    let id = match grouping {
        Grouping::Chunks => chunk.to_string(),
        Grouping::Documents => document.to_string(),
    };
    let mut digest = [0; DIGEST];
    blake3::Hasher::new().update(id.as_bytes()).finalize_xof().fill(&mut digest);
    digest
}

#[cfg(test)]
mod tests {
    use clew_core::{Filter, SearchMode, Span, Version};

    use super::*;

    fn evidence(number: usize) -> Evidence {
        let document_id: DocumentId = format!("d{number}").parse().unwrap();
        let corpus = "notes".parse().unwrap();
        Evidence {
            chunk_id: ChunkId::derive(&corpus, &document_id, Version(1), 0),
            document_id,
            version: Version(1),
            title: String::new(),
            span: Span::new(0, 1),
            text: String::new(),
            event_time: None,
            score: 1.0,
            dense_score: None,
            sparse_score: None,
        }
    }

    fn hit(number: usize) -> Hit {
        let Evidence { chunk_id, document_id, version, score, .. } = evidence(number);
        Hit { chunk_id, document_id, version, ordinal: 0, score, shown: None }
    }

    fn start(names: &[u32], results: usize, grouping: Grouping) -> PageStart {
        let named = |(shard, name): (u32, &u32)| Some((ShardIndex(shard), ViewName::new(*name)?));
        let views = (0..).zip(names).filter_map(named).collect();
        let returned: Vec<Evidence> = (0..results).map(evidence).collect();
        PageStart::default().after(&returned, grouping, views)
    }

    fn refuses(token: &str, search: &Search<'_>) -> bool {
        match PageStart::read(token, search, &Limits::default()) {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.fields_at_fault(), ["page_token"]);
                assert!(error.message().contains("same corpus"), "{error}");
                true
            }
        }
    }

    #[test]
    fn tokens_round_trip_and_no_changed_one_is_read() {
        let corpus = "notes".parse().unwrap();
        let query = Query::new("who?", 3);
        let search = Search { tenant: None, corpus: &corpus, query: &query };
        for grouping in [Grouping::Chunks, Grouping::Documents] {
            for (names, results) in [(vec![], 1), (vec![7], 3), (vec![0, u32::MAX, 0, 5], 20)] {
                let start = start(&names, results, grouping);
                let token = start.token(&search);
                let back = PageStart::read(&token, &search, &Limits::default()).unwrap();
                assert_eq!((&back, back.len()), (&start, results));
                for number in 0..results + 9 {
                    assert_eq!(back.has_returned(&hit(number), grouping), number < results);
                }
                for place in 0..token.len() {
                    let mut changed = token.clone().into_bytes();
                    changed[place] = if changed[place] == b'0' { b'8' } else { b'0' };
                    assert!(refuses(&String::from_utf8(changed).unwrap(), &search), "{place}");
                    assert!(refuses(&token[..place], &search) || place == 0, "{place}");
                }
                assert!(refuses(&format!("{token}00"), &search));
            }
        }
    }

    #[test]
    fn a_token_is_of_one_search_whatever_the_size_of_its_pages() {
        let (notes, other) = ("notes".parse().unwrap(), "other".parse().unwrap());
        let (acme, emca) = ("acme".parse().unwrap(), "emca".parse().unwrap());
        let query = Query::new("who?", 3);
        let search = Search { tenant: Some(&acme), corpus: &notes, query: &query };
        let token = start(&[7], 3, Grouping::Chunks).token(&search);
        let larger = Query { k: 100, ..query.clone() };
        assert!(!refuses(&token, &Search { query: &larger, ..search }));
        let filter = Filter { documents: vec!["a".parse().unwrap()], ..Filter::default() };
        let condition = Some("year > 2020".parse().unwrap());
        let queries = [
            Query { text: "who".to_owned(), ..query.clone() },
            Query { mode: SearchMode::Dense, ..query.clone() },
            Query { grouping: Grouping::Documents, ..query.clone() },
            Query { exact: true, ..query.clone() },
            Query { filter, ..query.clone() },
            Query { filter: Filter { condition, ..Filter::default() }, ..query.clone() },
        ];
        for query in &queries {
            assert!(refuses(&token, &Search { query, ..search }), "{query:?}");
        }
        assert!(refuses(&token, &Search { corpus: &other, ..search }));
        assert!(refuses(&token, &Search { tenant: Some(&emca), ..search }));
        assert!(refuses(&token, &Search { tenant: None, ..search }));
    }

    #[test]
    fn what_is_no_token_and_one_of_another_version_is_refused_in_words() {
        let corpus = "notes".parse().unwrap();
        let query = Query::new("who?", 3);
        let search = Search { tenant: None, corpus: &corpus, query: &query };
        let long = "0".repeat(40_000);
        for bad in ["x", "0", "zz", "é1", "00", "no token", &long] {
            assert!(refuses(bad, &search), "{bad}");
        }
        let token = start(&[7], 3, Grouping::Chunks).token(&search);
        assert!(refuses(&token.replacen("01", "02", 1), &search));
        assert_eq!(PageStart::read("", &search, &Limits::default()).unwrap(), PageStart::default());
        // Nothing is left to be returned.
        let ended = start(&[7], Limits::default().results, Grouping::Chunks).token(&search);
        assert!(refuses(&ended, &search));
    }

    #[test]
    fn the_largest_token_has_at_most_16_kib() {
        let corpus = "notes".parse().unwrap();
        let query = Query::new("who?", 3);
        let search = Search { tenant: None, corpus: &corpus, query: &query };
        let limits = Limits::default();
        let names = vec![u32::MAX; limits.shards as usize];
        let largest = start(&names, limits.results - 1, Grouping::Chunks);
        let token = largest.token(&search);
        assert!(token.len() <= 16 << 10, "{}", token.len());
        assert_eq!(PageStart::read(&token, &search, &limits).unwrap(), largest);
    }
}
