//! Tests the map of the repository: it is in the first prompt, once, and can be turned off.

use provost_agent::builtin::BuiltinOptions;
use provost_rehearsal::{Model, Turn};
use serde_json::json;

use crate::stage::{KEY, Stage};

#[test]
fn the_first_prompt_has_a_map_unless_it_is_turned_off() {
    let stage = Stage::new();
    stage.write("money.py", "class Money:\n    def add_tax(self, rate):\n        pass\n");
    stage.write("order.py", "from money import Money\n\nclass Order:\n    total = Money()\n");
    stage.write("bill.py", "from order import Order\n\nprint(Order().total)\n");
    for (map_tokens, maps) in [(None, 1), (Some(0), 0)] {
        let model = Model::script([Turn::call("list", json!({ "path": "." })), Turn::text("Done.")]);
        let model = model.key(KEY).serve().expect("a model");
        stage.perform(&model, BuiltinOptions { map_tokens, ..BuiltinOptions::default() });
        let last = model.requests().pop().expect("a request").all_text();
        assert_eq!(
            last.matches("money.py\n  class Money\n    def add_tax(self, rate)").count(),
            maps,
            "{last}"
        );
    }
}
