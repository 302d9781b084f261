//! Failures that the simulator found, each as a short script.

mod rig;

use rig::*;

/// A queue that overflowed while a link changed its connection left the link in the turn of the old one for ever.
#[test]
fn link_14_a_takeover_that_evicts_goes_on_over_the_new_connection() {
    let mut rig = Rig::new(|config| config.queue_count_max = 1);
    let same = Rig::registration(Some("one"), &[], false);
    let old = rig.register_as("b", &same);
    rig.call("b", "first");
    rig.out(old);
    rig.call("b", "second");
    let new = rig.accept();
    rig.send_register(new, "b", &same);
    let sent = rig.out(new);
    let calls: Vec<_> = sent.iter().filter(|sent| sent.target.is_some()).collect();
    assert_eq!(calls.len(), 1, "{sent:?}");
    assert_eq!(calls[0].text(), "second");
}
