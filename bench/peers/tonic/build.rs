//! Makes client and server of the service from its description here, so that neither protoc nor a .proto is needed.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let method = |name: &str, route: &str, input: &str, output: &str| {
        Method::builder()
            .name(name)
            .route_name(route)
            .input_type(format!("crate::service::{input}"))
            .output_type(format!("crate::service::{output}"))
            .codec_path("tonic_prost::ProstCodec")
    };
    let service = Service::builder()
        .name("Bench")
        .package("bench")
        .method(method("echo", "Echo", "Body", "Body").build())
        .method(method("swallow", "Swallow", "Body", "Size").build())
        .method(
            method("chunks", "Chunks", "Wanted", "Body")
                .server_streaming()
                .build(),
        )
        .build();
    Builder::new().compile(&[service]);
}
