//! libFuzzer's entry to [`nacp_fuzz_targets::frame_stream`], which says what is asserted.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| nacp_fuzz_targets::frame_stream::run(input));
