//! Certificate authority for tests, which can also issue invalid certificates.

use std::io;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// Validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// It is valid now.
    Valid,
    /// It expired years ago.
    Expired,
    /// It becomes valid in many years.
    NotYet,
}

/// A certificate authority with a key of its own.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// Paths of a certificate and its key.
#[derive(Clone, Debug)]
pub struct IssuedFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Authority {
    /// Creates an authority called `name`.
    ///
    /// # Errors
    /// Returns an error if no key can be generated.
    pub fn new(name: &str) -> io::Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(io::Error::other)?;
        Ok(Self { issuer })
    }

    /// Writes the authority's certificate.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        std::fs::write(file, self.issuer.pem())
    }

    /// Issues a certificate for `names`, and writes `STEM.crt` and `STEM.key` to `folder`.
    ///
    /// # Errors
    /// Returns an error if no key can be generated or a file cannot be written.
    pub fn issue(
        &self,
        folder: &Path,
        stem: &str,
        names: &[&str],
        validity: Validity,
    ) -> io::Result<IssuedFiles> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
        params.distinguished_name.push(DnType::CommonName, stem);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let (from, until) = match validity {
            Validity::Valid => (2020, 2120),
            Validity::Expired => (2000, 2001),
            Validity::NotYet => (2119, 2120),
        };
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(io::Error::other)?;
        let files = IssuedFiles {
            certificate: folder.join(format!("{stem}.crt")),
            key: folder.join(format!("{stem}.key")),
        };
        std::fs::write(&files.certificate, certificate.pem())?;
        std::fs::write(&files.key, key.serialize_pem())?;
        Ok(files)
    }
}
