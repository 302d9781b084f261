//! What every transport promises, judged once per transport.
//!
//! A new transport joins with one line: a name, and a function that gives a URL to listen at.

#[path = "contract/endings.rs"]
mod endings;
#[path = "contract/exchange.rs"]
mod exchange;
#[path = "contract/listening.rs"]
mod listening;
#[path = "contract/place.rs"]
mod place;
#[path = "contract/pressure.rs"]
mod pressure;

/// Far beyond what any test takes on a loaded machine.
const STUCK_AFTER: std::time::Duration = std::time::Duration::from_secs(120);

macro_rules! contract {
    ($transport:ident, $place:expr) => {
        mod $transport {
            contract!(@each $place;
                exchange::messages_of_every_size_arrive_whole_and_in_order,
                exchange::both_ways_at_once_nothing_blocks,
                exchange::a_message_of_64_mib_arrives_whole,
                exchange::a_small_message_overtakes_a_large_one_between_its_chunks_b37,
                exchange::large_messages_do_not_wait_for_each_other,
                exchange::many_small_messages_keep_their_order,
                pressure::a_message_is_accepted_only_after_its_last_byte,
                pressure::a_stalled_reader_stops_the_sender_and_a_moving_one_starts_it_b42,
                pressure::small_messages_may_pass_when_large_ones_crowd_the_channel,
                pressure::a_message_over_the_bound_fails_the_sender_and_is_named,
                endings::an_orderly_close_comes_after_every_message,
                endings::a_cut_in_the_middle_of_a_message_gives_no_message_b02,
                endings::nothing_of_a_cut_channel_survives_into_the_next_b11,
                endings::sending_to_one_who_is_gone_fails_and_stays_failed,
                listening::dialling_where_nobody_listens_is_refused,
                listening::a_place_that_is_taken_is_a_clear_error,
                listening::a_place_is_free_again_when_its_listener_is_gone,
                listening::several_channels_of_one_listener_are_independent,
                listening::a_dropped_accept_loses_no_connection,
                listening::an_accepted_channel_has_the_address_that_its_remote_text_tells,
            );
        }
    };
    (@each $place:expr; $($module:ident::$test:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $test() {
                // A transport that lost a wake-up fails by name instead of holding up the suite.
                tokio::time::timeout(crate::STUCK_AFTER, crate::$module::$test(&$place))
                    .await
                    .expect("the test is stuck");
            }
        )*
    };
}

/// Of byte streams only: the farewells of WebSocket and HTTP end both directions.
macro_rules! half_closing {
    ($transport:ident, $place:expr) => {
        mod $transport {
            contract!(@each $place; endings::one_direction_may_end_before_the_other);
        }
    };
}

contract!(tcp, crate::place::Place::tcp());
#[cfg(unix)]
contract!(unix, crate::place::Place::unix());
contract!(mem, crate::place::Place::mem());
#[cfg(feature = "web")]
contract!(ws, crate::place::Place::ws());
#[cfg(feature = "web")]
contract!(http, crate::place::Place::http());
#[cfg(all(feature = "tls", feature = "web"))]
contract!(tls, crate::place::Place::secure("tls"));
#[cfg(all(feature = "tls", feature = "web"))]
contract!(wss, crate::place::Place::secure("wss"));
#[cfg(all(feature = "tls", feature = "web"))]
contract!(https, crate::place::Place::secure("https"));

half_closing!(tcp_half_closed, crate::place::Place::tcp());
#[cfg(unix)]
half_closing!(unix_half_closed, crate::place::Place::unix());
half_closing!(mem_half_closed, crate::place::Place::mem());
#[cfg(all(feature = "tls", feature = "web"))]
half_closing!(tls_half_closed, crate::place::Place::secure("tls"));
