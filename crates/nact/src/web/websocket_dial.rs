//! The client's WebSocket handshake (RFC 6455, section 4.1).

use http::{HeaderValue, StatusCode, header};
use hyper_util::rt::TokioIo;
use tungstenite::handshake::client::generate_key;
use tungstenite::handshake::derive_accept_key;

use super::Web;
use super::connection::{Connection, ask, connect, handshake_error, request};
use super::http_dial::Pieces;
use crate::channel::Channel;
use crate::error::DialError;
use crate::options::Options;
use crate::url::Url;
use crate::websocket::{self, Role};

/// Connects and upgrades. Without a time limit of its own.
pub(super) async fn dial(web: &Web, url: &Url, options: &Options) -> Result<Channel, DialError> {
    let mut connection: Connection<Pieces> = connect(web, url, options).await?;
    let key = generate_key();
    let ask_for_upgrade = request(web, url)?
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, &key)
        .body(Pieces::default())
        .map_err(|error| handshake_error(url, error.to_string()))?;
    let response = ask(&mut connection, url, ask_for_upgrade).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let reason = format!("websocket-upgrade-{}", response.status().as_u16());
        return Err(handshake_error(url, reason));
    }
    let headers = response.headers();
    let accept = headers.get(header::SEC_WEBSOCKET_ACCEPT);
    let is_websocket = headers
        .get(header::UPGRADE)
        .map(HeaderValue::as_bytes)
        .is_some_and(|upgrade| upgrade.eq_ignore_ascii_case(b"websocket"))
        && accept.is_some_and(|accept| accept == derive_accept_key(key.as_bytes()).as_str())
        // Neither was asked for.
        && !headers.contains_key(header::SEC_WEBSOCKET_EXTENSIONS)
        && !headers.contains_key(header::SEC_WEBSOCKET_PROTOCOL);
    if !is_websocket {
        return Err(handshake_error(url, "websocket-handshake-invalid"));
    }
    let upgraded = hyper::upgrade::on(response)
        .await
        .map_err(|_| handshake_error(url, "connection-cut"))?;
    let io = TokioIo::new(upgraded);
    let remote = connection.remote;
    Ok(websocket::channel(io, Role::Client, remote, options))
}
