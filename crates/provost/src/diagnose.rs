//! stub
use provost_core::diagnostic::Diagnostic;
pub fn terminal(_t: &str, f: &str, d: &[Diagnostic], _c: bool) -> String {
    d.iter().map(|d| format!("{f}: {}[{}] {}\n", d.severity.word(), d.code, d.message)).collect()
}
pub fn json(plan: &str, rev: &str, steps: usize, _t: &str, d: &[Diagnostic]) -> serde_json::Value {
    serde_json::json!({"plan":plan,"revision":rev,"steps":steps,"diagnostics":d.len()})
}
pub fn sarif(_t: &str, _f: &str, _d: &[Diagnostic]) -> serde_json::Value {
    serde_json::Value::Null
}
