//! Makes failures small. What this module keeps true: the result fails by the same promise, is no longer than what was
//! given, and the number of runs is bounded.

use crate::op::Op;
use crate::run::Failure;

/// Leaves out Ops of `failure`, in ever smaller blocks, as long as `fails` still gives a failure of the same promise;
/// at most `runs_max` tries.
pub fn shrink(
    failure: Failure,
    runs_max: u32,
    fails: &mut dyn FnMut(&[Op]) -> Option<Failure>,
) -> Failure {
    let mut best = failure;
    let mut runs = 0;
    let mut block = best.ops.len().div_ceil(2).max(1);
    loop {
        let before = best.ops.len();
        let mut at = 0;
        while at < best.ops.len() && runs < runs_max {
            let end = (at + block).min(best.ops.len());
            let mut shorter = best.ops.clone();
            shorter.drain(at..end);
            runs += 1;
            let same = |found: &Failure| found.broken.rule == best.broken.rule;
            match fails(&shorter).filter(same) {
                // It may have failed before its last Op.
                Some(found) => best = found,
                None => at = end,
            }
        }
        if runs >= runs_max || (block == 1 && best.ops.len() == before) {
            return best;
        }
        block = block.div_ceil(2).min(best.ops.len().max(1));
    }
}
