//! The TLS client setup of a plan's connections: issuers, the client's own certificate, sessions.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use plan::{Http, Plan, PlanError, TlsSession};
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, Error, RootCertStore};

use super::accept_any::AcceptAny;
use super::tickets::Tickets;
use super::trust_own::TrustOwn;

/// HTTP/2 in ALPN.
pub(super) const ALPN_HTTP2: &[u8] = b"h2";

/// The TLS client setup of a plan's connections.
#[derive(Clone, Debug)]
pub struct ClientSetup {
    pub(super) config: ClientConfig,
    pub(super) verifier: Verifier,
    own: Option<Arc<Own>>,
    pub(super) name: ServerName<'static>,
    session: TlsSession,
}

/// What decides whether to trust the target.
#[derive(Clone, Debug)]
pub(super) enum Verifier {
    Any(AcceptAny),
    Trusting(TrustOwn),
}

impl Verifier {
    /// The same, with a count of references of its own.
    pub(super) fn counted(&self) -> Arc<dyn ServerCertVerifier> {
        match self {
            Verifier::Any(any) => Arc::new(any.clone()),
            Verifier::Trusting(own) => Arc::new(own.clone()),
        }
    }
}

/// The client's own certificate and its key.
#[derive(Debug)]
struct Own {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl ClientSetup {
    /// The setup for connections to a target with this name.
    ///
    /// # Errors
    /// A file can't be read or has the wrong content, or the system trusts no issuer.
    pub fn new(plan: &Plan, name: &str) -> Result<ClientSetup, PlanError> {
        let server_name = server_name(name)?;
        let provider = Arc::new(ring::default_provider());
        let verifier = match plan.insecure {
            true => Verifier::Any(AcceptAny::new(&provider)),
            false => Verifier::Trusting(trusting(plan.cacert.as_deref(), &provider)?),
        };
        let (own, mut config) = match (&plan.cert, &plan.key) {
            (Some(cert), Some(key)) => {
                let refuse = |file: &Path, flag, error: &dyn Display| {
                    let problem = format!("not the client's certificate and its key ({error})");
                    let cure = "give the PEM files of a certificate (--cert) and its key (--key)";
                    PlanError::new(flag, file.display(), problem, cure)
                };
                let chain = certificates(cert, "--cert")?;
                let own = PrivateKeyDer::from_pem_file(key)
                    .map_err(|error| refuse(key, "--key", &error))?;
                let own = Own { chain, key: own };
                let made =
                    config(provider, &verifier, Some(&own)).map_err(|error| match error {
                        Error::InvalidCertificate(_) => refuse(cert, "--cert", &error),
                        _ => refuse(key, "--key", &error),
                    })?;
                (Some(Arc::new(own)), made)
            }
            // A completed plan has both or neither.
            _ => (None, config(provider, &verifier, None).expect("there is no key to refuse")),
        };
        config.alpn_protocols = alpn(plan.http);
        config.resumption = Resumption::disabled();
        Ok(ClientSetup { config, verifier, own, name: server_name, session: plan.tls_session })
    }

    /// The same setup for another server.
    ///
    /// # Errors
    /// No certificate can be made for this name.
    pub fn named(&self, name: &str) -> Result<ClientSetup, PlanError> {
        Ok(ClientSetup { name: server_name(name)?, ..self.clone() })
    }

    /// The same setup for this version of HTTP alone.
    #[must_use]
    pub fn speaking(mut self, http: Http) -> ClientSetup {
        self.config.alpn_protocols = alpn(http);
        self
    }

    /// The configuration for a shard with this many connections, which resumes only its own
    /// sessions. Each ticket counts references to the verifier and to the client's certificate, and
    /// each use of its key to the key: shards with counts in common would wait for their line.
    pub(super) fn of_shard(&self, conns: usize) -> Arc<ClientConfig> {
        let provider = Arc::clone(self.config.crypto_provider());
        let own = self.own.as_deref();
        let mut config = config(provider, &self.verifier, own).expect("it was made before");
        config.alpn_protocols.clone_from(&self.config.alpn_protocols);
        config.resumption = Resumption::disabled();
        if self.session == TlsSession::Resume {
            config.resumption = Resumption::store(Arc::new(Tickets::new(conns)));
        }
        Arc::new(config)
    }
}

/// A configuration with this provider, this verifier and the client's own certificate, none of
/// which counts references together with another configuration's.
///
/// # Errors
/// The certificate or its key can't be used.
fn config(
    provider: Arc<CryptoProvider>,
    verifier: &Verifier,
    own: Option<&Own>,
) -> Result<ClientConfig, Error> {
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider knows both versions")
        .dangerous()
        .with_custom_certificate_verifier(verifier.counted());
    match own {
        Some(Own { chain, key }) => config.with_client_auth_cert(chain.clone(), key.clone_key()),
        None => Ok(config.with_no_client_auth()),
    }
}

/// What ALPN offers, the best first.
fn alpn(http: Http) -> Vec<Vec<u8>> {
    let http1 = || b"http/1.1".to_vec();
    match http {
        Http::V1 => vec![http1()],
        Http::V2 => vec![ALPN_HTTP2.to_vec()],
        Http::Auto => vec![ALPN_HTTP2.to_vec(), http1()],
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, PlanError> {
    ServerName::try_from(name.to_owned()).map_err(|error| {
        let problem = format!("no certificate is made for such a name ({error})");
        PlanError::new("--target", name, problem, "give a host name or an IP address")
    })
}

/// Trusts the system's trusted issuers, and the certificates in a file: as issuers, and as a
/// server's own.
fn trusting(cacert: Option<&Path>, provider: &Arc<CryptoProvider>) -> Result<TrustOwn, PlanError> {
    let own = cacert.map_or(Ok(Vec::new()), |file| certificates(file, "--cacert"))?;
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(system.certs);
    for (file, certificate) in cacert.iter().flat_map(|file| own.iter().map(move |own| (file, own)))
    {
        roots.add(certificate.clone()).map_err(|error| {
            let problem = format!("a certificate in it can't be used ({error})");
            let cure = "give the PEM file of an issuer's certificate, or of the server's own";
            PlanError::new("--cacert", file.display(), problem, cure)
        })?;
    }
    let issuers =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map_err(|_| {
                let why =
                    system.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
                let problem = format!("this system trusts no issuer of certificates{why}");
                let cure = "name a file with issuers, install ca-certificates, or use --insecure";
                PlanError::new("--cacert", "none", problem, cure)
            })?;
    Ok(TrustOwn::new(issuers, own))
}

/// The certificates in a file, at least one.
fn certificates(
    file: &Path,
    flag: &'static str,
) -> Result<Vec<CertificateDer<'static>>, PlanError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let refuse = |problem: String| {
        PlanError::new(flag, file.display(), problem, "give a PEM file of certificates")
    };
    match read {
        Ok(certificates) if Vec::is_empty(&certificates) => {
            Err(refuse("no certificate is in it".to_owned()))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(refuse(format!("can't read it ({error})"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_count_no_references_together_and_offer_the_same() {
        let plan = Plan { insecure: true, http: Http::Auto, ..Plan::default() };
        let setup = ClientSetup::new(&plan, "localhost").expect("a configuration");
        let shards = [setup.of_shard(1), setup.of_shard(1)];
        let resolvers = shards.each_ref().map(|config| &config.client_auth_cert_resolver);
        // rustls doesn't show the verifier, which is made anew together with it.
        assert!(!Arc::ptr_eq(resolvers[0], resolvers[1]));
        for config in &shards {
            assert_eq!(config.alpn_protocols, alpn(Http::Auto));
            assert!(!Arc::ptr_eq(
                &config.client_auth_cert_resolver,
                &setup.config.client_auth_cert_resolver
            ));
        }
    }
}
