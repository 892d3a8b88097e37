//! An authority that certifies nodes and clients, rightly and wrongly.

use std::io;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// When a certificate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Now.
    Valid,
    /// It ended years ago.
    Expired,
    /// It begins in many years.
    NotYet,
}

/// An authority of its own.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// Where a certificate and its key are.
#[derive(Clone, Debug)]
pub struct IssuedFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Authority {
    /// An authority called `name`.
    ///
    /// # Errors
    /// Those of making keys.
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
    /// Those of the file.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        std::fs::write(file, self.issuer.pem())
    }

    /// Certifies whoever is called `names`, and writes `STEM.crt` and `STEM.key` to `folder`.
    ///
    /// # Errors
    /// Those of the files and of making keys.
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
