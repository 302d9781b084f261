//! Makes failures small. What this module keeps true: the result fails as what was given did, is no longer than that,
//! and the number of runs is bounded.

use crate::broken::Broken;
use crate::op::Op;
use crate::run::Failure;

/// Leaves out Ops of `failure`, in ever smaller blocks, as long as `fails` still gives a failure of the same kind; then
/// joins steps of time. At most `runs_max` tries.
pub fn shrink(
    failure: Failure,
    runs_max: u32,
    fails: &mut dyn FnMut(&[Op]) -> Option<Failure>,
) -> Failure {
    let kind = kind(&failure.broken);
    let mut shrinking = Shrinking {
        best: failure,
        kind,
        left: runs_max,
        fails,
    };
    loop {
        let before = shrinking.best.ops.len();
        shrinking.leave_out();
        shrinking.join_advances();
        if shrinking.left == 0 || shrinking.best.ops.len() == before {
            return shrinking.best;
        }
    }
}

/// The promise and how it was broken, without the numbers of the case.
fn kind(broken: &Broken) -> (&'static str, String) {
    let words = broken.what.chars().filter(|c| c.is_alphabetic());
    (broken.rule, words.take(24).collect())
}

struct Shrinking<'a> {
    best: Failure,
    kind: (&'static str, String),
    left: u32,
    fails: &'a mut dyn FnMut(&[Op]) -> Option<Failure>,
}

impl Shrinking<'_> {
    /// Whether `ops` fail the same way; then they are the best so far.
    fn try_ops(&mut self, ops: &[Op]) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let found = (self.fails)(ops).filter(|found| kind(&found.broken) == self.kind);
        // It may have failed before its last Op.
        found.map(|found| self.best = found).is_some()
    }

    fn leave_out(&mut self) {
        let mut block = self.best.ops.len().div_ceil(2).max(1);
        loop {
            let mut at = 0;
            while at < self.best.ops.len() && self.left > 0 {
                let end = (at + block).min(self.best.ops.len());
                let mut shorter = self.best.ops.clone();
                shorter.drain(at..end);
                if !self.try_ops(&shorter) {
                    at = end;
                }
            }
            if block == 1 || self.left == 0 {
                return;
            }
            block = block.div_ceil(2);
        }
    }

    fn join_advances(&mut self) {
        let mut at = 0;
        while at + 1 < self.best.ops.len() && self.left > 0 {
            let (Op::Advance { steps: a }, Op::Advance { steps: b }) =
                (self.best.ops[at], self.best.ops[at + 1])
            else {
                at += 1;
                continue;
            };
            let mut shorter = self.best.ops.clone();
            shorter[at] = Op::Advance { steps: a + b };
            shorter.remove(at + 1);
            if a + b >= 65_536 || !self.try_ops(&shorter) {
                at += 1;
            }
        }
    }
}
