//! Chooses one of the options that a question names.

use clew_core::Error;

use super::calibrated::{ANSWERED, STEP_ANSWERED};
use super::candidate::Candidate;
use super::choice::Comparison;
use super::clean::{key, says_same};
use super::session::Session;
use super::told::{Item, Said};
use crate::extractive::judged::Judged;

/// Maximum number of options that are compared: each takes a reading, or two.
const MOST_COMPARED: usize = 3;

impl Session<'_, '_> {
    /// Returns the option that the passages tell, with what tells it; `None` if they do not. `rest`
    /// is the question without its options.
    pub(super) async fn choose(
        &mut self,
        options: &[String],
        rest: &str,
    ) -> Result<Option<Judged>, Error> {
        let items = match Comparison::of(rest) {
            // A reader that sees one of two things cannot tell which is older.
            Some(comparison) => self.compare(options, &comparison).await?,
            None => self.pick(options).await?,
        };
        let Some(mut items) = items.filter(|items| items[0].probability >= ANSWERED) else {
            return Ok(None);
        };
        let way = items.split_off(1);
        let said = Said { text: items[0].words.clone(), items, threshold: ANSWERED };
        Ok(Some(self.answered(said, &way)))
    }

    /// Returns the option that the words found are.
    async fn pick(&mut self, options: &[String]) -> Result<Option<Vec<Item>>, Error> {
        let found = self.ask(self.question, &self.all()).await?;
        let keys: Vec<String> = options.iter().map(|option| key(option)).collect();
        let picked = |candidate: &Candidate| {
            let mut same = (0..keys.len()).filter(|&at| says_same(&keys[at], &candidate.key));
            let first = same.next()?;
            same.next().is_none().then(|| Item::of(candidate, options[first].clone()))
        };
        Ok(found.iter().find_map(picked).map(|item| vec![item]))
    }

    /// Reads what is compared of each option, and returns the option that is asked for, followed by
    /// what was found of the others and on the way.
    async fn compare(
        &mut self,
        options: &[String],
        comparison: &Comparison,
    ) -> Result<Option<Vec<Item>>, Error> {
        if options.len() > MOST_COMPARED {
            return Ok(None);
        }
        let (mut quantities, mut grounds, mut on_the_way) = (Vec::new(), Vec::new(), Vec::new());
        for option in options {
            let mut subject = without_remark(option).to_owned();
            if let Some(role) = &comparison.role {
                let asked = format!("Who is the {role} of {subject}?");
                let Some(holder) = self.best_about(&subject, &asked).await? else {
                    return Ok(None);
                };
                on_the_way.push(Item::of(&holder, holder.text.clone()));
                subject = holder.text;
            }
            let Some(found) = self.best_about(&subject, &comparison.asks(&subject)).await? else {
                return Ok(None);
            };
            let Some(quantity) = comparison.quantity(&found.text) else { return Ok(None) };
            quantities.push(quantity);
            grounds.push(Item::of(&found, found.text.clone()));
        }
        let Some(chosen) = comparison.chosen(&quantities) else { return Ok(None) };
        let all = grounds.iter().chain(&on_the_way).map(|item| item.probability);
        let probability = all.fold(1.0, f32::min);
        let answer = grounds.remove(chosen);
        let mut items = vec![Item { words: options[chosen].clone(), probability, ..answer }];
        items.extend(grounds.into_iter().chain(on_the_way));
        Ok(Some(items))
    }

    /// Returns the best answer of the passages that name `subject`, if it is likely enough.
    pub(super) async fn best_about(
        &mut self,
        subject: &str,
        question: &str,
    ) -> Result<Option<Candidate>, Error> {
        let passages = self.naming(subject);
        if passages.is_empty() {
            return Ok(None);
        }
        let found = self.answers(question, &passages).await?;
        Ok(found.into_iter().next().filter(|best| best.probability >= STEP_ANSWERED))
    }
}

/// Returns a name without the remark that tells it from others: "Atomised (film)".
fn without_remark(name: &str) -> &str {
    let name = name.trim();
    let remark = name.ends_with(')').then(|| name.rfind(" (")).flatten();
    remark.map_or(name, |start| name[..start].trim())
}
