//! What the fuzzer found, once each, as a script that a person can read. The inputs themselves are in `fuzz/corpus`.

use nacp::message::payload::Date;
use nacp::{Payload, Value};

#[test]
fn a_date_beyond_the_year_141_000_comes_back_to_the_millisecond() {
    for ms in [
        4_448_321_057_366_359,
        -4_448_321_057_366_359,
        8_639_999_999_999_999,
        8_640_000_000_000_000,
    ] {
        let date = Date { ms };
        let bytes = Value::Date(date).encode().unwrap();
        assert_eq!(Value::decode(&bytes).unwrap(), Value::Date(date));
        assert_eq!(
            Payload::encode(&date).unwrap().decode::<Date>().unwrap(),
            date
        );
    }
    // All of a stretch where neighbours are closest.
    for ms in 8_500_000_000_000_000..8_500_000_000_010_000 {
        let bytes = Value::Date(Date { ms }).encode().unwrap();
        assert_eq!(Value::decode(&bytes).unwrap(), Value::Date(Date { ms }));
    }
}
