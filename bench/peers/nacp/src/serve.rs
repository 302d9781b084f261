//! The serving side: an App that echoes, takes large messages and streams chunks; and a Gateway.

use napp::{App, Builder, EventContext, Payload};
use serde_bytes::ByteBuf;
use yardstick::{Args, Failure, control, own};

use crate::apps::{GATEWAY, SERVER, builder, next_hop};

/// Serves for ever.
pub async fn server(args: &Args) -> Result<(), Failure> {
    let url = args.required("url")?;
    let mut server = with_handlers(builder(SERVER, args)?);
    let is_behind_gateway = next_hop(args) == GATEWAY;
    if !is_behind_gateway {
        server = server.listen(url)?;
    }
    let server = server.start().await?;
    if is_behind_gateway {
        server.connect(GATEWAY, url).await?;
    }
    hold(server).await
}

/// Forwards for ever.
pub async fn gateway(args: &Args) -> Result<(), Failure> {
    own::raise_open_files();
    let url = args.required("url")?;
    let gateway = builder(GATEWAY, args)?.gateway(true).listen(url)?;
    hold(gateway.start().await?).await
}

async fn hold(app: App) -> Result<(), Failure> {
    control::ready();
    std::future::pending::<()>().await;
    drop(app);
    Ok(())
}

fn with_handlers(builder: Builder) -> Builder {
    builder
        .ability("echo", |body: ByteBuf| async move { Ok(body) })
        .ability("swallow", |body: Payload| async move {
            Ok(body.as_bytes().len() as u64)
        })
        .event("chunks", chunks)
}

async fn chunks(
    context: EventContext,
    (count, size): (u64, u64),
) -> Result<(), napp::HandlerError> {
    let chunk = ByteBuf::from(vec![7; usize::try_from(size)?]);
    for _ in 0..count {
        // A plain stream refuses a chunk when its queue is full; a lossless one waits by itself.
        while !context.emit(&chunk).await? {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}
