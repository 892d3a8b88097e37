//! Reading, navigation and planning over evidence, with and without a language model.
//!
//! [`ExtractiveReasoner`] works without a language model. Its answers are words of the evidence,
//! which a small model finds (a [`clew_core::SpanReader`]), or whole sentences of it, or are
//! computed from statements. The sentences are cited in each case, so answers can be incomplete or
//! mistaken but not invented. [`prompted::Prompted`] asks a model for the same steps, and for the
//! other steps of judgement that the memory mechanisms take.
//!
//! # Steps without a model
//!
//! - Judge and answer: [`ExtractiveReasoner`]. With a reader it judges whether words answer.
//!   Without one it cannot tell relevance from entailment, see below.
//! - Choose a child in a tree: [`ExtractiveReasoner`], by the child's summary and the passages that
//!   a search found below it. It cannot reason from a summary to what is below it.
//! - Read a leaf of a tree: [`ExtractiveReasoner`], like any passage. It cannot combine the leaf
//!   with what was read on the way to it.
//! - Judge evidence and say what is missing: [`ExtractiveReasoner`] reads the evidence. With a
//!   reader it names what is left of a question of several steps, a name that it found and has not
//!   read about, or the words of the question that no likely answer covers. Without one, these are
//!   the words that occur nowhere in the evidence.
//! - Name the entities of a question: [`ExtractiveReasoner`] takes titles, names and numbers,
//!   otherwise topics. It cannot resolve a pronoun or a description.
//! - Choose entities to look at: [`ExtractiveReasoner`] takes those that are missing by name, then
//!   by the similarity of their names. It cannot see otherwise that one entity leads to another.
//! - Summarise evidence: [`ExtractiveReasoner`] takes the sentences that stand for most of it. It
//!   cannot tell what matters for the task.
//! - Fuse descriptions of a relation: [`ExtractiveReasoner`] joins them. It cannot say once what
//!   several say.
//! - Elaborate a query: [`ExtractiveReasoner`] puts a relation after the question. It cannot use
//!   other words.
//! - Reword a question, imagine a passage, list key points: [`ExtractiveReasoner`], from words and
//!   sentences that are there. It cannot tell the meanings of an ambiguous question apart.
//! - Propose clues: [`propose_clues`]. It cannot say what the outline does not say.
//! - Raise concerns: [`ExtractiveReasoner`] reads the points as it reads evidence, and
//!   [`raise_concerns`] compares words without a reader. Neither can doubt what a point says.
//! - Update and merge points: [`ExtractiveReasoner`], by their entities and words. It cannot draw
//!   conclusions.
//! - Compute with dates, count, add up: [`ExtractiveReasoner`], see below. It cannot recognise an
//!   event that is described in other words.
//! - Infer the time that a question asks about: `clew_chat::time::asked_about`, by fixed
//!   expressions.
//! - Extract what users state of themselves: `clew_chat::facts`. It cannot rephrase, and misses
//!   statements without "I".
//! - Build summaries, entities and relations: `clew_text::summarise` and `clew_graph`. They cannot
//!   use other words than the text's.
//!
//! Asking questions about a segment, and judging answers, have no counterpart.
//!
//! # How `ExtractiveReasoner` reads with a reader
//!
//! 1. *Show* the reader the sixteen best passages, at most 64 KiB together, each with its title, or
//!    for a turn of a conversation with the role of who speaks and the day. Of a question of more
//!    than 48 words, the last sentences are asked.
//! 2. *Unite* what it finds. The probability that words at a place answer is the probability that
//!    their passage answers, times how likely they are beside the best words there. The same words
//!    at several places add up, as if each place was wrong by itself (noisy-or). Case, articles,
//!    marks and the writing of amounts make no difference: "€5,000" is "5000 EUR". A text that
//!    stands in two passages counts once. Words whose sentence has none of the question's names,
//!    and no pronoun that may mean them, are less probable.
//! 3. *Take steps*, if a description of somebody or something is in the question. "Where was the
//!    director of Titanic born?" is asked as it stands, and also as "Who is the director of
//!    Titanic?" and then "Where was James Cameron born?" Each step is one more reading, at most
//!    four, of at most eight passages. The probabilities of the steps are multiplied.
//! 4. *Judge* by the probability of the best words. Below 0.5 the answer is empty.
//! 5. *Answer* with the words, and cite the sentence around them with its exact bytes. A time such
//!    as "yesterday" becomes the day that it means in a passage with a time.
//!
//! The form of the question decides what is said of several likely words:
//!
//! - *Which things, who are, list*: all of them, "A, B and C", in the order of the passages.
//! - *One thing*: the best. If documents with times say different things, all of them with their
//!   days, the newest first; only the newest or oldest if the question asks about now or before.
//! - *Yes or no*: only if a sentence says it in the question's own words, "Maria doesn't lead the
//!   team." Otherwise sentences are quoted, as without a reader.
//! - *Why, how something is or is done*: sentences are quoted.
//! - *A or B*: the option that the words are. "Which is older, A or B?" is read as a question about
//!   each option, and the days or measures are compared. If that cannot be, sentences are quoted.
//!
//! The reader was trained on English. A question in another language, told by its script and its
//! most frequent words, is answered by quotes, and the rationale says so. A summary is always made
//! of sentences. The rules for [forms of questions](#forms-of-questions) go first; statements that
//! say a number, days, and what the assistant said are quoted only if the reader finds no words.
//!
//! The probability that decides is set by calibration on development data (`clew eval reading
//! --calibrate`), and never on questions that results are reported for.
//!
//! # How `ExtractiveReasoner` reads without a reader
//!
//! 1. *Read* the ten best passages, at most 16 KiB of each, sentence by sentence. Sentences of more
//!    than 400 characters are read in pieces. Duplicates are dropped, and turns in which the user
//!    asked the same question before.
//! 2. *Choose* at most 48 sentences, at most 24 of one passage. Preferred are sentences that
//!    contain more of the question's words, belong to a better passage, and state something rather
//!    than ask or be a heading, a table row or code.
//! 3. *Compare* them with the question, with one call of the encoder for the question and one for
//!    the sentences. A sentence's score is its cosine similarity, plus 0.2 times the share of the
//!    question's words that it contains, plus up to 0.05 for the rank of its passage, plus 0.15 if
//!    it states something. A word counts by its inverse frequency in the sentences read, doubled
//!    for names and numbers.
//! 4. *Judge* whether that supports an answer. If not, the answer is empty.
//! 5. *Compose* the best sentence and up to two more that add a word of the question or are nearly
//!    as good, within 600 characters, in the order of their documents. A sentence that begins with
//!    a pronoun brings along the sentence before it, if that one is short.
//!
//! The order of the evidence makes no difference: passages are ranked by score, and equal ones by
//! document and place.
//!
//! # Forms of questions
//!
//! Questions about a memory of conversations often ask for something that no single sentence says.
//! `ExtractiveReasoner` therefore recognises some forms of questions, in English. All other
//! questions are read as above.
//!
//! - *How long between A and B, how long ago, when; which was first or last, in what order*:
//!   computed from the days of the events. Each event is dated by a time in the sentence that fits
//!   it best, relative to when that sentence was said, or otherwise by that day. The answer is a
//!   sentence with the figure or the order, followed by the quotes. If no sentence describes one of
//!   several events, there is no answer.
//! - *How many of a kind*: the newest statement that says a number; otherwise two to six distinct
//!   statements, counted, with their days.
//! - *How much was spent or earned*: the sum of the one amount in each statement that fits. If the
//!   question names two things, the sum of the amounts in the turns that mention them.
//! - *What is so now, or was before*: the same sentences, with the newest or oldest preferred among
//!   about equal ones. The newest are also preferred if the time of the question is known.
//! - *What was at a time*: the same sentences, with those said about that time preferred.
//! - *Advice*: statements of users about themselves, from a confidence of 0.15, after "You said:".
//! - *What the assistant said*: the assistant's sentences, and the item of a list if the question
//!   asks for it by number.
//!
//! The confidence that a sentence describes an event is computed as for a question made of the
//! event's words, without verbs that can stand for any other ("did", "got"). Computed answers say
//! "About" if a day is not exact. Statements that may be plans are not counted, and nothing is
//! added up if a statement names several amounts. `extractive/measured.rs` measures how many
//! questions these rules take up and answer correctly, on the public half of LongMemEval's
//! questions, with their evidence given and a similarity of words alone.
//!
//! # Calibration without a reader
//!
//! The confidence of quotes is a logistic function of three features that mean the same in any
//! corpus and for any mode of search:
//!
//! | feature | coefficient |
//! |---|---|
//! | highest cosine similarity of a sentence to the question | 8.23 |
//! | largest share of the question's words, by weight, in one sentence and its title | 3.44 |
//! | share of the question's names and numbers that occur nowhere in what was read | −3.11 |
//! | intercept | −5.19 |
//!
//! A question counts as answered from a confidence of 0.45. The constants were fitted offline by
//! logistic regression, lightly regularised, on public question sets of two kinds: multi-hop
//! questions on encyclopedia passages (two samples of MuSiQue, one each of HotpotQA and
//! 2WikiMultihopQA) and questions on chats (LoCoMo, LiHua-World, LongMemEval S). These are 577
//! questions in seven sets of equal weight (the MuSiQue samples half each), embedded by
//! all-MiniLM-L6-v2, with ten passages searched by reciprocal rank fusion. Each question was read
//! three times:
//!
//! - with the results from its own corpus, if these contained a passage labelled as evidence (for
//!   chats, anything of a labelled session): to be answered;
//! - with the results from other corpora of the same kind: to be refused;
//! - with the results from its own corpus without the evidence: to be refused, with less weight,
//!   since the remaining passages often answer a part.
//!
//! The threshold answers 93.5 % of the questions whose evidence was found, as a mean over the sets.
//! In the table, the constants and the threshold of each set were found on the other sets (for the
//! MuSiQue samples, on sets other than MuSiQue). The three features themselves were selected from
//! about twenty on all of these sets, so the table is slightly optimistic:
//!
//! | set | evidence found: answered | foreign corpus: refused | evidence taken away: refused |
//! |---|---|---|---|
//! | MuSiQue, sample 1 | 98 % | 95 % | 54 % |
//! | MuSiQue, sample 2 | 94 % | 87 % | 62 % |
//! | HotpotQA | 100 % | 95 % | 22 % |
//! | 2WikiMultihopQA | 100 % | 98 % | 53 % |
//! | LoCoMo | 86 % | 100 % | 30 % |
//! | LiHua-World | 91 % | 99 % | 34 % |
//! | LongMemEval S | 80 % | 88 % | 88 % |
//! | mean | 93 % | 95 % | 49 % |
//!
//! Limits: it cannot tell an answer from a text about the same people and things that leaves the
//! answer out, because it measures relevance and not entailment. The last column shows how often
//! that matters. It refuses one in seven of LoCoMo's questions about the wrong person, and half of
//! LiHua-World's unanswerable ones. The coefficient of the cosine belongs to the encoder: a model
//! other than all-MiniLM-L6-v2 spreads its similarities differently, and the constants should be
//! fitted again for it.

mod config;
mod extractive;
mod model_or_rules;
pub mod prompted;

pub use config::BudgetConfig;
pub use extractive::{ExtractiveReasoner, propose_clues, raise_concerns};
pub use model_or_rules::ModelOrRules;
