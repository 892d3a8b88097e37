//! Properties of all acts, and tests against a scripted model.

mod judge;
mod navigator;
mod parsers;
mod rehearsal;
mod runner;
mod samples;
mod seams;
mod shapes;
mod snapshots;
