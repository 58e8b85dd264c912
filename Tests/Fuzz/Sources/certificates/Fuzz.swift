import COpenSSL
import FuzzKit

@testable import Transports

/// The first byte says what the rest is: a certificate in DER, or the names of one. A zero byte in a name never passes,
/// and a certificate with one has no name at all.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafeRawPointer, _ count: Int) -> CInt {
    var script = ByteScript(UnsafeRawBufferPointer(start: start, count: count))
    if script.byte() & 1 == 0 {
        guard let certificate = parsed(script.remainder()) else { return 0 }
        defer { X509_free(certificate) }
        check(CertificateNames(of: certificate))
    } else {
        guard let certificate = X509_new() else { return 0 }
        defer { X509_free(certificate) }
        let hasZero = addNames(to: certificate, &script)
        let names = CertificateNames(of: certificate)
        if hasZero { expect(names.objection != nil, "a zero byte passes: \(names)") }
        check(names)
    }
    return 0
}

private func parsed(_ bytes: [UInt8]) -> OpaquePointer? {
    bytes.withUnsafeBufferPointer { buffer in
        var place = buffer.baseAddress
        return d2i_X509(nil, &place, buffer.count)
    }
}

/// Puts up to three parts into the subject, and what is left as the alternative names.
///
/// - Returns: whether a part that was taken, and is read byte by byte, holds a zero.
private func addNames(to certificate: OpaquePointer, _ script: inout ByteScript) -> Bool {
    var hasZero = false
    let kinds = [V_ASN1_UTF8STRING, V_ASN1_IA5STRING, V_ASN1_PRINTABLESTRING, V_ASN1_BMPSTRING, V_ASN1_UNIVERSALSTRING]
    for _ in 0..<script.below(4) {
        let kind = script.element(of: kinds)
        let part = script.element(of: [NID_commonName, NID_organizationalUnitName])
        let bytes = script.bytes(Int(script.byte()))
        let isTaken = X509_NAME_add_entry_by_NID(
            X509_get_subject_name(certificate), part, kind, bytes, Int32(bytes.count), -1, 0)
        if isTaken == 1, kind == V_ASN1_UTF8STRING || kind == V_ASN1_IA5STRING || kind == V_ASN1_PRINTABLESTRING {
            hasZero = hasZero || bytes.contains(0)
        }
    }
    let alternatives = script.remainder()
    guard !alternatives.isEmpty, let octets = ASN1_OCTET_STRING_new() else { return hasZero }
    defer { ASN1_OCTET_STRING_free(octets) }
    guard ASN1_OCTET_STRING_set(octets, alternatives, Int32(alternatives.count)) == 1,
        let extension_ = X509_EXTENSION_create_by_NID(nil, NID_subject_alt_name, 0, octets)
    else { return hasZero }
    X509_add_ext(certificate, extension_, -1)
    X509_EXTENSION_free(extension_)
    return hasZero
}

private func check(_ names: CertificateNames) {
    for name in names.commonNames + names.organizationalUnits + names.uris + names.dnsNames + names.emailAddresses {
        expect(!name.utf8.contains(0), "a zero byte in \(name)")
    }
    for kind in CertificateNameSelector.Kind.allCases {
        for index in [nil, 1, 2] {
            do throws(CertificateNameSelector.Refusal) {
                let name = try CertificateNameSelector(kind, index: index).name(in: names)
                expect(names.objection == nil, "a certificate with an objection has the name \(name)")
                expect(!name.isEmpty && !name.utf8.contains(0), "the name \(name)")
                if kind == .spiffe { expect(name.utf8.count > 9 && name.hasPrefix("spiffe://"), "\(name) is no SPIFFE ID") }
            } catch {
                expect(!error.words.isEmpty, "refused without a reason")
            }
        }
    }
}
