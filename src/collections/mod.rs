//! Collections of entries with deadlines.

pub mod deadline_map;
pub mod delay_queue;
pub(crate) mod metrics;
