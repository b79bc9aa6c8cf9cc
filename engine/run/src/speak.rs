//! The start of one HTTP/2 connection before a run: a target that doesn't speak it is refused
//! before any request is sent.

use std::io::{ErrorKind, Read, Write};

use http2::client::Client;
use http2::event::Event;
use plan::PlanError;
use plan::endpoints::PlanEndpoint;

/// Begins HTTP/2 on a connection to an endpoint; returns how many streams the target takes, `None`
/// for any number.
///
/// # Errors
/// The target doesn't speak HTTP/2.
pub fn settings(
    stream: &mut (impl Read + Write),
    endpoint: &PlanEndpoint,
) -> Result<Option<u32>, PlanError> {
    let mut client = Client::new(1);
    let cure = "give --http 1.1";
    match exchange(stream, &mut client) {
        Ok(Some(0)) => Err(endpoint.error("its limit of HTTP/2 streams is 0".to_owned(), cure)),
        Ok(limit) => Ok(limit),
        Err(why) => Err(endpoint.error(format!("it doesn't speak HTTP/2 ({why})"), cure)),
    }
}

fn exchange(stream: &mut (impl Read + Write), client: &mut Client) -> Result<Option<u32>, String> {
    let mut out = Vec::new();
    client.start(&mut out);
    let send = |stream: &mut dyn Write, out: &[u8]| {
        stream.write_all(out).and_then(|()| stream.flush()).map_err(|error| error.to_string())
    };
    send(stream, &out)?;
    let mut bytes = [0; 4_096];
    loop {
        let length = match stream.read(&mut bytes) {
            Ok(length) => length,
            // A read with a timeout isn't restarted automatically.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err("no settings came in time".to_owned());
            }
            Err(error) => return Err(error.to_string()),
        };
        if length == 0 {
            return Err("it closed the connection".to_owned());
        }
        let mut rest = &bytes[..length];
        loop {
            let (taken, event) = client.receive(rest);
            rest = &rest[taken..];
            match event {
                Event::NeedMore => break,
                Event::Broken(violation) => return Err(violation.code().to_owned()),
                Event::GoAway { code, .. } => return Err(format!("GOAWAY {}", code.name())),
                _ => {}
            }
            if let Some(settings) = client.peer_settings() {
                client.close();
                out.clear();
                client.write(&mut out);
                // Its settings have come, whether or not this arrives.
                let _ = send(stream, &out);
                return Ok(settings.streams_max);
            }
        }
    }
}
