//! Wire format of Clew: generated messages and services, and their conversion to and from domain
//! values.
//!
//! This is the only crate that knows both. `make proto` generates the code under `generated` from
//! `proto/`. The generated code is committed, so that a build needs no protocol compiler; a test
//! checks that it is current. Conversions refuse an invalid message, naming every invalid field,
//! before anything is done with it.

pub mod convert;
mod status;

pub use prost_types::{Duration, Timestamp};
pub use status::{ERROR_DOMAIN, from_status, respond, to_status};

/// Encoded `FileDescriptorSet` of all packages, for server reflection.
pub static FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/clew.descriptor.bin");

/// Package `clew.auth.v1`.
pub mod auth {
    /// Version 1.
    #[allow(missing_docs, clippy::all, unused_qualifications, reason = "generated code")]
    pub mod v1 {
        include!("generated/clew.auth.v1.rs");
    }
}

/// Package `clew.chat.v1`.
pub mod chat {
    /// Version 1.
    #[allow(missing_docs, clippy::all, unused_qualifications, reason = "generated code")]
    pub mod v1 {
        include!("generated/clew.chat.v1.rs");
    }
}

/// Package `clew.cluster.v1`.
pub mod cluster {
    /// Version 1.
    #[allow(missing_docs, clippy::all, unused_qualifications, reason = "generated code")]
    pub mod v1 {
        include!("generated/clew.cluster.v1.rs");
    }
}

/// Package `clew.corpus.v1`.
pub mod corpus {
    /// Version 1.
    #[allow(missing_docs, clippy::all, unused_qualifications, reason = "generated code")]
    pub mod v1 {
        include!("generated/clew.corpus.v1.rs");
    }
}

/// Package `clew.encoder.v1`.
pub mod encoder {
    /// Version 1.
    #[allow(missing_docs, clippy::all, unused_qualifications, reason = "generated code")]
    pub mod v1 {
        include!("generated/clew.encoder.v1.rs");
    }
}

/// Package `clew.generator.v1`.
pub mod generator {
    /// Version 1.
    #[allow(missing_docs, clippy::all, unused_qualifications, reason = "generated code")]
    pub mod v1 {
        include!("generated/clew.generator.v1.rs");
    }
}

/// Package `clew.graph_builder.v1`.
pub mod graph_builder {
    /// Version 1.
    #[allow(missing_docs, clippy::all, unused_qualifications, reason = "generated code")]
    pub mod v1 {
        include!("generated/clew.graph_builder.v1.rs");
    }
}

/// Package `clew.ingest.v1`.
pub mod ingest {
    /// Version 1.
    #[allow(missing_docs, clippy::all, unused_qualifications, reason = "generated code")]
    pub mod v1 {
        include!("generated/clew.ingest.v1.rs");
    }
}

/// Package `clew.memory.v1`.
pub mod memory {
    /// Version 1.
    #[allow(missing_docs, clippy::all, unused_qualifications, reason = "generated code")]
    pub mod v1 {
        include!("generated/clew.memory.v1.rs");
    }
}

/// Package `clew.query.v1`.
pub mod query {
    /// Version 1.
    #[allow(missing_docs, clippy::all, unused_qualifications, reason = "generated code")]
    pub mod v1 {
        include!("generated/clew.query.v1.rs");
    }
}

/// Package `clew.shard.v1`.
pub mod shard {
    /// Version 1.
    #[allow(missing_docs, clippy::all, unused_qualifications, reason = "generated code")]
    pub mod v1 {
        include!("generated/clew.shard.v1.rs");
    }
}
