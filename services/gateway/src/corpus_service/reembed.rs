//! Reembedding: moving a corpus to another embedding model, step by step.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_auth::Caller;
use clew_core::{
    Access, Corpus, CorpusName, CorpusSettings, EncoderIdentity, Error, ErrorKind, ReembedStep,
    Reembedded,
};
use clew_proto::corpus::v1 as wire;
use futures::future::try_join_all;
use tonic::Request;

use super::{Corpora, described};

/// Number of attempts at a step that loses races against other changes.
const ATTEMPTS: usize = 4;
/// Longest search for the encoder of the new model.
const ENCODER_PATIENCE: Duration = Duration::from_secs(5);

impl Corpora {
    pub(super) async fn reembed(
        &self,
        request: Request<wire::ReembedCorpusRequest>,
    ) -> Result<wire::ReembedCorpusResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let asked = request.into_inner();
        let name: CorpusName = asked.name.parse()?;
        if !asked.model.is_empty() && asked.step() != wire::ReembedStep::Start {
            return Err(Error::invalid("model", "expected none but for the step START"));
        }
        let mut attempts = 1..ATTEMPTS;
        let corpus = loop {
            match self.take_step(&caller, &name, &asked, deadline).await {
                Err(error) if error.kind() == ErrorKind::LostRace && attempts.next().is_some() => {}
                taken => break taken?,
            }
        };
        let progress = Progress::of(&corpus, deadline).await;
        if let Err(error) = &progress {
            tracing::warn!(error = error.chain(), "a step was taken, and not all shards answer");
        }
        let progress = progress.ok().map(|progress| progress.told_to(caller.access()));
        let corpus = Some(described(&caller, &corpus, None));
        Ok(wire::ReembedCorpusResponse { corpus, progress })
    }

    pub(super) async fn reembedding(
        &self,
        request: Request<wire::GetReembeddingRequest>,
    ) -> Result<wire::GetReembeddingResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let name = request.into_inner().name.parse()?;
        let corpus = self.backends.corpora.of(&caller).get(&name, deadline).await?;
        let progress = Progress::of(&corpus, deadline).await?.told_to(caller.access());
        let corpus = Some(described(&caller, &corpus, None));
        Ok(wire::GetReembeddingResponse { corpus, progress: Some(progress) })
    }

    /// Takes a step and returns the corpus after it. Changes nothing if the step was taken already.
    async fn take_step(
        &self,
        caller: &Caller,
        name: &CorpusName,
        asked: &wire::ReembedCorpusRequest,
        deadline: Instant,
    ) -> Result<Arc<Corpus>, Error> {
        let corpora = self.backends.corpora.of(caller);
        let corpus = corpora.newest(name, deadline).await?;
        let before = corpus.settings();
        let step = self.step(asked, before, deadline).await?;
        // Errors name the corpus as the caller does.
        let by_his_name = CorpusSettings { name: name.clone(), ..before.clone() };
        let after = by_his_name.after(&step)?;
        let after = CorpusSettings { name: before.name.clone(), ..after };
        if after == *before {
            return Ok(corpus);
        }
        if step == ReembedStep::CutOver {
            let progress = Progress::of(&corpus, deadline).await?;
            progress.check_complete(&after.encoder, name, caller.access())?;
        }
        corpora.change(name, before, &after, deadline).await?;
        corpora.get(name, deadline).await
    }

    /// Returns the requested step of a corpus with these settings.
    async fn step(
        &self,
        asked: &wire::ReembedCorpusRequest,
        settings: &CorpusSettings,
        deadline: Instant,
    ) -> Result<ReembedStep, Error> {
        use wire::ReembedStep as Asked;
        Ok(match asked.step() {
            Asked::Start => {
                let encoders = &self.backends.encoders;
                let next = next_model(&encoders.offered(), &settings.encoder, &asked.model)?;
                let patience = deadline.min(Instant::now() + ENCODER_PATIENCE);
                // Checked before anything is changed: without the encoder no vectors could be
                // filled in.
                encoders.of(&next, patience).await?;
                ReembedStep::Start(next)
            }
            Asked::CutOver => ReembedStep::CutOver,
            Asked::Back => ReembedStep::Back,
            Asked::Confirm => ReembedStep::Confirm,
            Asked::Abandon => ReembedStep::Abandon,
            Asked::Unspecified => {
                return Err(Error::invalid("step", "expected one that is known here"));
            }
        })
    }
}

/// Returns the model to move to: among the offered ones that are not the corpus' own, the one named
/// `wanted`, or the only one if `wanted` is empty.
fn next_model(
    offered: &[EncoderIdentity],
    own: &EncoderIdentity,
    wanted: &str,
) -> Result<EncoderIdentity, Error> {
    let is_meant = |it: &&EncoderIdentity| *it != own && (wanted.is_empty() || it.model == wanted);
    let meant: Vec<&EncoderIdentity> = offered.iter().filter(is_meant).collect();
    let names = |models: &[&EncoderIdentity]| {
        let names: Vec<String> = models.iter().map(|it| format!("`{}`", it.model)).collect();
        names.join(", ")
    };
    match meant.as_slice() {
        [next] => Ok((*next).clone()),
        [] => {
            let model = if wanted.is_empty() { String::new() } else { format!(" `{wanted}`") };
            let offered = names(&offered.iter().collect::<Vec<_>>());
            let problem = format!(
                "no encoder offers another model{model} than that of the corpus, `{}`, only {offered}; set \
                 `encoder.next_model` of the encoders",
                own.model
            );
            Err(Error::new(ErrorKind::WrongState, "MODEL_NOT_OFFERED", problem))
        }
        several => {
            let problem = format!("expected the name of one of {}", names(several));
            Err(Error::invalid("model", problem))
        }
    }
}

/// Progress of the reembedding, over all shards of a corpus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    /// Shards that do not know the settings yet.
    unheard: usize,
    counts: wire::ReembeddingCounts,
}

impl Progress {
    async fn of(corpus: &Corpus, deadline: Instant) -> Result<Self, Error> {
        let wanted = corpus.settings().recipes().wanted;
        let asked = corpus.shards().iter().map(|shard| shard.reembedded(deadline));
        let mut progress = Self::default();
        for Reembedded { recipe, documents, outdated, set_aside } in try_join_all(asked).await? {
            progress.unheard += usize::from(recipe != wanted);
            progress.counts.documents += documents;
            progress.counts.outdated += outdated;
            progress.counts.set_aside += set_aside;
        }
        Ok(progress)
    }

    fn is_complete(&self) -> bool {
        self.unheard == 0 && self.counts.outdated == 0
    }

    /// Converts the progress for a caller. It counts documents that the caller may not see, so only
    /// callers with access to all documents get the counts.
    fn told_to(&self, access: &Access) -> wire::ReembeddingProgress {
        wire::ReembeddingProgress {
            heard: self.unheard == 0,
            complete: self.is_complete(),
            counts: access.is_all().then_some(self.counts),
        }
    }

    /// Checks that all vectors are there before searches use them.
    fn check_complete(
        &self,
        next: &EncoderIdentity,
        name: &CorpusName,
        access: &Access,
    ) -> Result<(), Error> {
        if self.is_complete() {
            return Ok(());
        }
        let wire::ReembeddingCounts { documents, outdated, set_aside } = self.counts;
        let what = match access.is_all() {
            true => format!("{outdated} of {documents} documents"),
            false => "documents".to_owned(),
        };
        let problem = if self.unheard > 0 {
            let unheard = self.unheard;
            format!("{unheard} of its shards have not heard of the move yet; try again in a second")
        } else if outdated == set_aside {
            format!(
                "{what} have no vectors of `{}` and are set aside, as they failed too often; look why with `clew \
                 status`, and ingest or forget them",
                next.model
            )
        } else {
            format!(
                "{what} have no vectors of `{}` yet; wait for them with `clew corpus reembed status --wait`",
                next.model
            )
        };
        let problem = format!("corpus `{name}` cannot be cut over: {problem}");
        Err(Error::new(ErrorKind::WrongState, "REEMBEDDING_UNFINISHED", problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str) -> EncoderIdentity {
        EncoderIdentity {
            model: name.to_owned(),
            revision: "r".to_owned(),
            dimension: 8,
            max_tokens: 256,
        }
    }

    #[test]
    fn the_model_to_move_to_is_the_other_one_or_the_one_named() {
        let revised = EncoderIdentity { revision: "s".to_owned(), ..model("a") };
        let two = [model("a"), model("b")];
        // Each case: models offered, model wanted, and the next model or the reason of the error.
        let cases: [(&[EncoderIdentity], &str, Result<EncoderIdentity, &str>); 7] = [
            (&two, "", Ok(model("b"))),
            (&two, "b", Ok(model("b"))),
            (&two, "a", Err("MODEL_NOT_OFFERED")),
            (&two, "c", Err("MODEL_NOT_OFFERED")),
            (&[model("a")], "", Err("MODEL_NOT_OFFERED")),
            (&[model("a"), revised.clone()], "a", Ok(revised)),
            (&[model("b"), model("c")], "", Err("INVALID_INPUT")),
        ];
        for (offered, wanted, expected) in cases {
            let next = next_model(offered, &model("a"), wanted);
            let next = next.as_ref().map_err(Error::reason);
            assert_eq!(next, expected.as_ref().map_err(|reason| *reason), "{wanted}");
        }
    }

    #[test]
    fn what_is_left_is_counted_for_those_who_see_all_and_decides_for_everyone() {
        let counts =
            |outdated, set_aside| wire::ReembeddingCounts { documents: 9, outdated, set_aside };
        let (all, some) = (Access::all(), Access::holding([]));
        let progress = Progress { unheard: 0, counts: counts(0, 0) };
        assert!(progress.told_to(&some).complete && progress.told_to(&some).counts.is_none());
        assert!(progress.check_complete(&model("b"), &"notes".parse().unwrap(), &some).is_ok());
        for (progress, told) in [
            (Progress { unheard: 1, counts: counts(0, 0) }, "1 of its shards"),
            (
                Progress { unheard: 0, counts: counts(2, 2) },
                "2 of 9 documents have no vectors of `b` and are set",
            ),
            (
                Progress { unheard: 0, counts: counts(2, 1) },
                "2 of 9 documents have no vectors of `b` yet",
            ),
        ] {
            let check = |access| {
                let refused =
                    progress.check_complete(&model("b"), &"notes".parse().unwrap(), access);
                refused.unwrap_err()
            };
            assert!(check(&all).message().contains(told), "{}", check(&all));
            assert!(!check(&some).message().contains("of 9"), "{}", check(&some));
            assert_eq!(check(&some).reason(), "REEMBEDDING_UNFINISHED");
        }
    }
}
