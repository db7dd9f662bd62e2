//! Collections whose entries come due.

pub mod deadline_map;
pub mod delay_queue;
