//! Does nothing. Cargo considers dependencies of builds only where there is a program that builds.

fn main() {}
