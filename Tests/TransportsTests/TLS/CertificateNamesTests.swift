import Platform
import Testing

@testable import Transports

/// Which name of a certificate says who its client is.
@Suite struct CertificateNamesTests {
    private let names = {
        var names = CertificateNames()
        names.commonNames = ["martin"]
        names.subject = "CN=martin,O=Birds"
        names.uris = ["spiffe://birds.example/1", "urn:dev:2"]
        names.dnsNames = ["dev.example"]
        return names
    }()

    private func name(_ kind: CertificateNameSelector.Kind, _ index: Int? = nil, in names: CertificateNames? = nil) -> String {
        do throws(CertificateNameSelector.Refusal) {
            return try CertificateNameSelector(kind, index: index).name(in: names ?? self.names)
        } catch {
            return "! \(error.words)"
        }
    }

    @Test func `a name is found by its kind, and of several by its number`() {
        #expect(name(.commonName) == "martin" && name(.subject) == "CN=martin,O=Birds" && name(.dns) == "dev.example")
        #expect(name(.uri, 1) == "spiffe://birds.example/1" && name(.uri, 2) == "urn:dev:2")
    }

    @Test func `a name that is not there, or that is one of several, is refused with words`() {
        #expect(name(.email) == "! it has no e-mail address among its alternative names")
        #expect(name(.uri) == "! it has 2 of the kind san-uri, and one is asked for (san-uri 1 takes the first)")
        #expect(name(.uri, 3) == "! it has 2 of the kind san-uri, and number 3 is asked for")
        #expect(name(.spiffe) == "! it has 2 of the kind spiffe, and one is asked for")
    }

    @Test(arguments: [
        ("spiffe://birds.example/1", true), ("spiffe://birds.example", true), ("spiffe://", false), ("spiffe:///1", false),
        ("https://birds.example", false), ("", false),
    ])
    func `a SPIFFE ID is the only URI, with a trust domain`(uri: String, isRight: Bool) {
        var names = CertificateNames()
        names.uris = [uri]
        #expect(name(.spiffe, in: names).hasPrefix("!") != isRight)
    }

    @Test func `the names of a certificate are read as they stand in it`() throws {
        let authority = try TestAuthority()
        authority.issue("client", subject: "/OU=one/OU=two/CN=a/CN=b")
        var settings = TLSSettings()
        (settings.certificateFile, settings.keyFile) = (authority.path("client.crt"), authority.path("client.key"))
        let files = CertificateFiles(certificate: authority.path("client.crt"), key: authority.path("client.key"))
        settings.namedCertificates = [files]
        // Without alternative names the common names are the hosts.
        _ = try TLSContext(settings)
        settings.namedCertificates[0].key = authority.path("ca.key")
        let failure = try #require(throws: TLSFailure.self) { try TLSContext(settings) }
        #expect(failure.option == "martlet_certificate" && failure.reason.contains("the key does not match"))
    }

    @Test func `a certificate that is shown says who has it, as a PEM file, as its Base64 and as DER`() throws {
        let authority = try TestAuthority()
        authority.issue("client", subject: "/O=Birds/OU=pumps/CN=anna")
        let pem = try WholeFile.bytes(of: authority.path("client.crt"), bytesMax: 1 << 20)
        let file = try #require(CertificateFile(Array("Certificate:\n".utf8) + pem))
        #expect(CertificateFile(Array(file.text.utf8))?.bytes == file.bytes && CertificateFile(file.bytes)?.bytes == file.bytes)
        let identity = try #require(PeerIdentity(showing: file.text))
        #expect(identity.certificateCommonName == "anna" && identity.certificate?.organizationalUnits == ["pumps"])
        for text in ["", "anna", "-----BEGIN CERTIFICATE-----\nAAAA", "AAAA", String(file.text.dropLast(40))] {
            #expect(PeerIdentity(showing: text) == nil)
        }
    }

    @Test func `keys of tickets have their length, and groups are known`() throws {
        let authority = try TestAuthority()
        authority.issue("server", subject: "/CN=localhost")
        var settings = TLSSettings()
        (settings.certificateFile, settings.keyFile) = (authority.path("server.crt"), authority.path("server.key"))
        settings.groups = "X25519:P-256"
        _ = try TLSContext(settings)
        settings.groups = "X25519:NONSENSE"
        #expect(try #require(throws: TLSFailure.self) { try TLSContext(settings) }.option == "martlet_tls_groups")
        settings.groups = nil
        settings.ticketKeyFiles = [authority.path("server.crt")]
        let failure = try #require(throws: TLSFailure.self) { try TLSContext(settings) }
        #expect(failure.option == "martlet_tls_ticket_key_file" && failure.reason.contains("a key has 80"))
    }
}
