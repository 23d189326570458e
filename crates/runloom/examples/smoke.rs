//! scratch
use runloom::{app::App, config};
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let env = config::Environment::of_process();
    let mut c = config::load(&config::Source::File("/tmp/smoke.toml".into()), &env).map_err(|e| anyhow::anyhow!("{e:?}"))?;
    c.platform.demo = Some(true);
    let l = tokio::net::TcpListener::bind("127.0.0.1:8787").await?;
    let app = App::start(&c, b"0123456789012345678901234567890123456789", l).await?;
    println!("listening on {}", app.address());
    tokio::signal::ctrl_c().await?;
    app.stop().await;
    Ok(())
}
