//! Fusion of rankings: pure functions from candidate lists to one order.
