//! Drives. Joins the rules, the log and the machine, and keeps the doors that people and agents come
//! in by. What it decides, it asks core; what it does, it asks host; what happened, it tells the store.

pub mod world;
pub mod drive;
pub mod site;
pub mod metering;
pub mod counsel;
pub mod model_judge;
pub mod hands;
pub mod project;
pub mod gate;
pub mod people;
pub mod watch_over;
pub mod reading;
pub mod prove;
pub mod audit;
pub mod otel;
pub mod harness;
mod worker;
pub mod places;
pub mod sessions;
pub mod desk;
pub mod inbox;
pub mod notice;
pub mod turns;
pub mod finish;
pub mod history;
pub mod tokens;
pub mod overview;
pub mod work;
pub mod commit;
pub mod draft;
pub mod doctor;
pub mod portal;
pub mod confined;
pub mod scripted;
mod error;

pub use error::Error;
pub use provost_host::collector::{Collector, Error as CollectorError};
pub use provost_host::config::SessionGate;
pub use provost_host::ground::Error as GroundError;
pub use provost_host::plan_file::Error as PlanFileError;
pub use provost_host::tree::Error as TreeError;
pub use provost_store::{Cursor, Error as StoreError, Query};
