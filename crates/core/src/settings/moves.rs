//! The steps by which a corpus moves to another embedding model.

use crate::{
    CorpusSettings, EncoderIdentity, Error, ErrorKind, ReembedPhase, ReembedStep, Reembedding,
};

impl CorpusSettings {
    /// Returns the models whose vectors are kept, first the one that questions are embedded with.
    pub fn encoders(&self) -> impl Iterator<Item = &EncoderIdentity> {
        let other = self.reembedding.as_ref().filter(|it| it.is_on()).map(|it| &it.other);
        std::iter::once(&self.encoder).chain(other)
    }

    /// Returns the model by whose tokens documents are cut. While two models are used it is the
    /// previous one, so that the same chunks result whichever is searched.
    pub fn cutter(&self) -> &EncoderIdentity {
        match &self.reembedding {
            Some(Reembedding { other, phase: ReembedPhase::CutOver, .. }) => other,
            _ => &self.encoder,
        }
    }

    /// Returns the model that the corpus was first made with.
    pub fn first_encoder(&self) -> &EncoderIdentity {
        self.reembedding.as_ref().map_or(&self.encoder, |it| &it.first)
    }

    /// Returns these settings after a step, or unchanged if the step was already taken.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongState`] if the step is not possible in the current phase, and
    /// [`ErrorKind::InvalidInput`] if the model cannot follow that of the corpus.
    pub fn after(&self, step: &ReembedStep) -> Result<Self, Error> {
        let now = self.reembedding.as_ref();
        match (step, now.map(|it| it.phase)) {
            (
                ReembedStep::Start(next),
                None | Some(ReembedPhase::Confirmed | ReembedPhase::Abandoned),
            ) => self.started(next),
            (ReembedStep::Start(next), Some(ReembedPhase::Filling))
                if now.is_some_and(|it| it.other == *next) =>
            {
                Ok(self.clone())
            }
            (ReembedStep::CutOver, Some(ReembedPhase::Filling)) => {
                Ok(self.swapped(ReembedPhase::CutOver))
            }
            (ReembedStep::Back, Some(ReembedPhase::CutOver)) => {
                Ok(self.swapped(ReembedPhase::Filling))
            }
            (ReembedStep::CutOver, Some(ReembedPhase::CutOver))
            | (ReembedStep::Back, Some(ReembedPhase::Filling)) => Ok(self.clone()),
            (ReembedStep::Confirm, Some(ReembedPhase::CutOver)) => {
                Ok(self.in_phase(ReembedPhase::Confirmed))
            }
            (ReembedStep::Confirm, Some(ReembedPhase::Confirmed)) => Ok(self.clone()),
            (ReembedStep::Abandon, Some(ReembedPhase::Filling)) => {
                Ok(self.in_phase(ReembedPhase::Abandoned))
            }
            (ReembedStep::Abandon, Some(ReembedPhase::Abandoned)) => Ok(self.clone()),
            (_, phase) => Err(self.not_the_turn(step, phase)),
        }
    }

    fn started(&self, next: &EncoderIdentity) -> Result<Self, Error> {
        if *next == self.encoder {
            let problem =
                format!("expected another model than that of the corpus, got `{}`", next.model);
            return Err(Error::invalid("model", problem));
        }
        let longest = self.chunking.max_tokens();
        if next.max_tokens < longest {
            let problem = format!(
                "expected a model that reads chunks of {longest} tokens, got `{}`, which reads {}; make a new corpus \
                 with smaller chunks",
                next.model, next.max_tokens
            );
            return Err(Error::invalid("model", problem));
        }
        let reembedding = Reembedding {
            first: self.first_encoder().clone(),
            other: next.clone(),
            phase: ReembedPhase::Filling,
            number: self.reembedding.as_ref().map_or(0, |it| it.number).saturating_add(1),
        };
        Ok(Self { reembedding: Some(reembedding), ..self.clone() })
    }

    fn in_phase(&self, phase: ReembedPhase) -> Self {
        let reembedding = self.reembedding.clone().map(|it| Reembedding { phase, ..it });
        Self { reembedding, ..self.clone() }
    }

    /// Returns the settings with the other of the two models searched.
    fn swapped(&self, phase: ReembedPhase) -> Self {
        let mut after = self.in_phase(phase);
        if let Some(reembedding) = &mut after.reembedding {
            std::mem::swap(&mut reembedding.other, &mut after.encoder);
        }
        after
    }

    fn not_the_turn(&self, step: &ReembedStep, phase: Option<ReembedPhase>) -> Error {
        let name = &self.name;
        let is = match (phase, &self.reembedding) {
            (Some(ReembedPhase::Filling), Some(it)) => {
                format!("vectors of `{}` are being made: cut over, or abandon that", it.other.model)
            }
            (Some(ReembedPhase::CutOver), _) => {
                format!(
                    "it was cut over to `{}`: confirm that, or go back first",
                    self.encoder.model
                )
            }
            _ => "no re-embedding is under way: start one".to_owned(),
        };
        let wanted = match step {
            ReembedStep::Start(next) => format!("start to re-embed with `{}`", next.model),
            ReembedStep::CutOver => "cut over".to_owned(),
            ReembedStep::Back => "go back".to_owned(),
            ReembedStep::Confirm => "confirm".to_owned(),
            ReembedStep::Abandon => "abandon".to_owned(),
        };
        let problem = format!("corpus `{name}` cannot {wanted} now; {is}");
        Error::new(ErrorKind::WrongState, "REEMBEDDING_STATE", problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    fn model(name: &str) -> EncoderIdentity {
        EncoderIdentity {
            model: name.to_owned(),
            revision: "r".to_owned(),
            dimension: 8,
            max_tokens: 256,
        }
    }

    fn settings() -> CorpusSettings {
        let name = "notes".parse().unwrap();
        let chunking = crate::Chunking::Sections { max_tokens: 200 };
        CorpusSettings {
            structure: Some(crate::StructureSettings::default()),
            ..CorpusSettings::plain(name, 1, chunking, model("a"), Timestamp::from_micros(0))
        }
    }

    fn take(settings: &CorpusSettings, steps: &[ReembedStep]) -> CorpusSettings {
        steps.iter().fold(settings.clone(), |settings, step| settings.after(step).unwrap())
    }

    fn start(name: &str) -> ReembedStep {
        ReembedStep::Start(model(name))
    }

    #[test]
    fn each_step_has_its_turn_and_is_taken_once() {
        use ReembedStep::{Abandon, Back, Confirm, CutOver};
        let none = settings();
        let filling = take(&none, &[start("b")]);
        let over = take(&filling, &[CutOver]);
        let ended = take(&over, &[Confirm]);
        // (before, step, after)
        let cases = [
            (&none, start("b"), Some(&filling)),
            (&none, start("a"), None),
            (&none, CutOver, None),
            (&none, Back, None),
            (&none, Confirm, None),
            (&none, Abandon, None),
            (&filling, start("b"), Some(&filling)),
            (&filling, start("c"), None),
            (&filling, CutOver, Some(&over)),
            (&filling, Back, Some(&filling)),
            (&filling, Confirm, None),
            (&over, start("b"), None),
            (&over, CutOver, Some(&over)),
            (&over, Back, Some(&filling)),
            (&over, Confirm, Some(&ended)),
            (&over, Abandon, None),
            (&ended, Confirm, Some(&ended)),
            (&ended, CutOver, None),
            (&ended, Abandon, None),
        ];
        for (before, step, after) in cases {
            assert_eq!(before.after(&step).ok().as_ref(), after, "{step:?}");
        }
        let models = |it: &CorpusSettings| {
            it.encoders().map(|encoder| encoder.model.clone()).collect::<Vec<_>>()
        };
        assert_eq!(models(&none), ["a"]);
        assert_eq!(models(&filling), ["a", "b"]);
        assert_eq!(models(&over), ["b", "a"]);
        assert_eq!(models(&ended), ["b"]);
        assert_eq!(models(&take(&filling, &[Abandon])), ["a"]);
        let mut short = model("c");
        short.max_tokens = 128;
        assert!(none.after(&ReembedStep::Start(short)).is_err());
    }

    #[test]
    fn chunks_are_made_again_once_in_a_move_and_not_after_it() {
        use ReembedStep::{Abandon, Back, Confirm, CutOver};
        let none = settings();
        let filling = take(&none, &[start("b")]);
        let before = none.recipes();
        let both = filling.recipes();
        assert!(!both.are_met_by(before.wanted));
        for steps in [&[CutOver][..], &[CutOver, Back]] {
            assert_eq!(take(&filling, steps).recipes(), both);
            assert_eq!(take(&filling, steps).cutter(), &model("a"));
        }
        let ended = take(&filling, &[CutOver, Confirm]);
        assert!(ended.recipes().are_met_by(both.wanted));
        assert!(!ended.recipes().are_met_by(before.wanted));
        assert_eq!((ended.cutter(), ended.first_encoder()), (&model("b"), &model("a")));
        let abandoned = take(&filling, &[Abandon]);
        assert!(abandoned.recipes().are_met_by(both.wanted));
        assert_eq!(abandoned.recipes().wanted, before.wanted);
        // The vectors of the abandoned move may have been removed.
        let again = take(&abandoned, &[start("b")]);
        assert!(!again.recipes().are_met_by(both.wanted));
        // Trees and graph have no vectors.
        assert_eq!(none.structure_recipe(), ended.structure_recipe());
    }
}
