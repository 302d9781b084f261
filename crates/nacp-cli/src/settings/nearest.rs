//! The name that was probably meant.
//!
//! What this module keeps true: a name that resembles none is not answered with a wild guess.

/// The one of `known` that is nearest to `name`, if it is near.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, best) = known
        .map(|other| (distance(name, other), other))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= 2.max(name.chars().count() / 3)).then_some(best)
}

/// Letters to insert, remove, replace, or exchange with their neighbour.
pub fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<_>, Vec<_>) = (one.chars().collect(), other.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for i in 1..=one.len() {
        let mut next = vec![i];
        for j in 1..=other.len() {
            let is_different = usize::from(one[i - 1] != other[j - 1]);
            let mut best = (row[j] + 1)
                .min(next[j - 1] + 1)
                .min(row[j - 1] + is_different);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let known = ["listen", "ack_timeout", "heartbeat_interval"];
        let nearest = |name| nearest(name, known.into_iter());
        assert_eq!(nearest("lisetn"), Some("listen"));
        assert_eq!(nearest("ack_time_out"), Some("ack_timeout"));
        assert_eq!(nearest("heartbeat_intervall"), Some("heartbeat_interval"));
        assert_eq!(nearest("colour"), None);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("abcd", "abdc"), 1);
    }
}
