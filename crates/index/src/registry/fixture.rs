//! Test helpers that both registries share.

use clew_core::{Chunking, CorpusSettings, EncoderIdentity, ReembedPhase, Reembedding, Timestamp};

use super::Registry;
use crate::error::Error;

/// Returns settings of a corpus. The creation time tells corpora of the same name apart.
pub(super) fn settings(name: &str, created_at: i64) -> CorpusSettings {
    let encoder = EncoderIdentity {
        model: "m".to_owned(),
        revision: "r".to_owned(),
        dimension: 8,
        max_tokens: 256,
    };
    let (chunking, made) =
        (Chunking::Sentences { max_tokens: 100 }, Timestamp::from_micros(created_at));
    CorpusSettings::plain(name.parse().unwrap(), 2, chunking, encoder, made)
}

/// Returns the settings of all corpora, all of which must be readable.
pub(super) async fn listed(corpora: &Registry) -> Vec<CorpusSettings> {
    let registered = corpora.list().await.unwrap();
    registered.into_iter().map(|(_, settings)| settings.unwrap()).collect()
}

/// Returns the settings after a move to another model has begun.
pub(super) fn next(settings: &CorpusSettings, model: &str) -> CorpusSettings {
    let other = EncoderIdentity { model: model.to_owned(), ..settings.encoder.clone() };
    let number = settings.reembedding.as_ref().map_or(0, |it| it.number) + 1;
    let first = settings.encoder.clone();
    let reembedding = Some(Reembedding { first, other, phase: ReembedPhase::Filling, number });
    CorpusSettings { reembedding, ..settings.clone() }
}

/// Checks that settings change only from their current value, only once, and only in their models.
/// Leaves no corpus behind.
pub(super) async fn refuses_what_is_not_there(corpora: &Registry) {
    let (before, name) = (settings("changed", 1), "changed".parse().unwrap());
    let after = next(&before, "b");
    let gone = corpora.change(&before, &after).await;
    assert!(matches!(gone, Err(Error::CorpusNotFound(_))), "{gone:?}");
    corpora.create(&before).await.unwrap();
    for other in [
        CorpusSettings { shards: 3, ..after.clone() },
        CorpusSettings { created_at: Timestamp::from_micros(2), ..after.clone() },
        CorpusSettings { name: "other".parse().unwrap(), ..after.clone() },
    ] {
        let refused = corpora.change(&before, &other).await;
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
    let later = |settings: &CorpusSettings| CorpusSettings {
        created_at: Timestamp::from_micros(2),
        ..settings.clone()
    };
    for (from, to) in [(&after, &next(&after, "c")), (&later(&before), &later(&after))] {
        let raced = corpora.change(from, to).await;
        assert!(matches!(raced, Err(Error::CorpusChanged)), "{raced:?}");
    }
    assert_eq!(corpora.get(&name).await.unwrap(), before);
    for _ in 0..2 {
        corpora.change(&before, &after).await.unwrap();
        assert_eq!(corpora.get(&name).await.unwrap(), after);
    }
    let back = corpora.change(&before, &next(&before, "c")).await;
    assert!(matches!(back, Err(Error::CorpusChanged)), "{back:?}");
    corpora.retire(&name).await.unwrap();
    let retired = corpora.change(&after, &next(&after, "c")).await;
    assert!(matches!(retired, Err(Error::CorpusNotFound(_))), "{retired:?}");
    corpora.delete(&name).await.unwrap();
}
