//! Both web transports through nginx as a reverse proxy. Runs where `NACP_TEST_NGINX=1` says that nginx is installed;
//! elsewhere it passes without doing anything.
#![cfg(all(feature = "web", unix))]

mod raw;

use std::process::{Child, Command};

use nact::web::WebConfig;
use nact::{Channel, Outbound, Transports};
use raw::{Server, drain, receive_one};

struct Nginx {
    process: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Nginx {
    /// In front of a server at this port.
    fn start(upstream: u16) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // A port that was free a moment ago.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let path = directory.path().display();
        let config = format!(
            "daemon off; master_process off; pid {path}/pid; error_log {path}/error.log;
            events {{}}
            http {{
                access_log off;
                client_body_temp_path {path}/body; proxy_temp_path {path}/proxy;
                fastcgi_temp_path {path}/fastcgi; uwsgi_temp_path {path}/uwsgi; scgi_temp_path {path}/scgi;
                map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
                server {{
                    listen 127.0.0.1:{port};
                    client_max_body_size 4m;
                    location /nacp {{
                        proxy_pass http://127.0.0.1:{upstream};
                        proxy_http_version 1.1;
                        proxy_set_header Upgrade $http_upgrade;
                        proxy_set_header Connection $connection_upgrade;
                        proxy_buffering off;
                        proxy_request_buffering off;
                        proxy_read_timeout 1h;
                    }}
                }}
            }}"
        );
        let file = directory.path().join("nginx.conf");
        std::fs::write(&file, config).unwrap();
        let process = Command::new("nginx")
            .arg("-c")
            .arg(&file)
            .arg("-p")
            .arg(directory.path())
            .spawn()
            .expect("nginx is installed");
        Self {
            process,
            port,
            _directory: directory,
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn both_transports_pass_through_nginx_with_buffering_off() {
    if std::env::var_os("NACP_TEST_NGINX").is_none_or(|value| value != "1") {
        return;
    }
    let mut server = Server::start(WebConfig::default()).await;
    let nginx = Nginx::start(server.port);
    let transports = Transports::default();
    for scheme in ["ws", "http"] {
        let url = format!("{scheme}://127.0.0.1:{}", nginx.port);
        // Until nginx listens, it is refused.
        let mut near = loop {
            match transports.dial(&url).await {
                Ok(channel) => break channel,
                Err(error) => assert_eq!(error.reason(), "connect-refused"),
            }
        };
        let mut far = server.accept().await;
        for size in [0, 10, 100_000, 5 << 20] {
            carries(&mut near, &mut far, size).await;
            carries(&mut far, &mut near, size).await;
        }
        near.sender.close().await.unwrap();
        assert_eq!(drain(&mut far).await.1, "closed");
    }
}

async fn carries(from: &mut Channel, to: &mut Channel, size: usize) {
    from.sender.push(Outbound {
        token: 1,
        body: vec![7; size].into(),
        ..Outbound::default()
    });
    let (accepted, message) = tokio::join!(from.sender.flush(), receive_one(to));
    assert_eq!(accepted.unwrap(), [1]);
    assert_eq!(message.len(), size);
}
