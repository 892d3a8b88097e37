//! Documents that callers offer, and what became of them.

use clew_core::{Accepted, Access, Document, IfThere};

/// Document that a caller offers.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The document.
    pub document: Document,
    /// Access of the caller, whose document replaces only what the caller sees.
    pub access: Access,
    /// Whether the document may replace an existing one.
    pub if_there: IfThere,
}

/// Outcome of an offer in a commit that succeeded: accepted, or refused by
/// [`Access::check_replaced`] or [`IfThere::check_replaced`].
pub type OfferResult = Result<Accepted, clew_core::Error>;
