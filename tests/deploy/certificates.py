"""Certificates of a cluster, for tests."""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# By which nodes know each other: `clew_tls::NODE_NAME`.
NODE_NAME = "node.clew.internal"
LIFE = datetime.timedelta(days=1)


def named(name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def builder(subject, issuer, key):
    now = datetime.datetime.now(datetime.timezone.utc)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number())
    # Clocks may be a little apart.
    return made.not_valid_before(now - LIFE).not_valid_after(now + LIFE)


def of_a_cluster(roles, hosts):
    """What Secrets of cert-manager hold, for nodes of the roles that clients reach at the hosts: role -> Secret."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    issuer = named("authority of the deploy test")
    authority = builder(issuer, issuer, authority_key)
    authority = authority.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    authority = authority.sign(authority_key, hashes.SHA256())

    def of_a_node(role):
        node_key = ec.generate_private_key(ec.SECP256R1())
        node = builder(named("node"), issuer, node_key)
        # The chart calls encoders by their program.
        names = [NODE_NAME, f"{role.removeprefix('memory-')}.{NODE_NAME}", *hosts]
        names = [x509.DNSName(name) for name in names]
        node = node.add_extension(x509.SubjectAlternativeName(names), critical=False)
        usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        node = node.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        node = node.sign(authority_key, hashes.SHA256())
        pem = serialization.Encoding.PEM
        key = node_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        made = {"tls.crt": node.public_bytes(pem), "tls.key": key, "ca.crt": authority.public_bytes(pem)}
        return {name: content.decode() for name, content in made.items()}

    return {role: of_a_node(role) for role in roles}
