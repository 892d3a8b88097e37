//! Turns on the features that any crate of the workspace needs of its dependencies, so that cargo
//! compiles each dependency once, whichever crates it builds. Holds no code.
