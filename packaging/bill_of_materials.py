"""Tells what is in the program, as a CycloneDX bill of materials."""

import sys
import uuid
from datetime import datetime, timezone

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from linked import WORKSPACE, linked_crates

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

def bill_of_materials(version, target, program_sha256, moment):
    """The bill as JSON: the crates that the program is linked of, without those that only compile it."""
    checksums = {(package["name"], package["version"]): package.get("checksum") for package in locked_packages()}
    bom, components, path = Bom(), {}, []
    for depth, name, crate_version, licence, repository in linked_crates(target):
        component = components.get((name, crate_version))
        if not component:
            component = Component(
                type=ComponentType.LIBRARY if path else ComponentType.APPLICATION,
                name=name,
                version=crate_version,
                bom_ref=f"{name}@{crate_version}",
                licenses=[LicenseFactory().make_from_string(licence)],
            )
            components[name, crate_version] = component
            sha256 = checksums[name, crate_version]
            if sha256:
                component.purl = PackageURL("cargo", name=name, version=crate_version)
                component.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=sha256))
            if repository:
                reference = ExternalReference(type=ExternalReferenceType.VCS, url=XsUri(repository))
                component.external_references.add(reference)
        del path[depth:]
        if path:
            bom.components.add(component)
            bom.register_dependency(path[-1], [component])
        else:
            component.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=program_sha256))
            bom.metadata.component = component
        path.append(component)
    bom.metadata.timestamp = datetime.fromtimestamp(moment, timezone.utc)
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_OID, program_sha256)
    return JsonV1Dot6(bom).output_as_string(indent=2)


def locked_packages():
    return tomllib.loads((WORKSPACE / "Cargo.lock").read_text())["package"]
