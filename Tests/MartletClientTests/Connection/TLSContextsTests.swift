import Glibc
import Platform
import Testing
import Transports

@testable import MartletClient

/// When a connection has a TLS context of its own.
struct TLSContextsTests {
    private let directory = "/tmp/martlet-contexts-\(RandomBytes.seed())"

    private func makeIdentity(_ name: String) throws {
        mkdir(directory, 0o700)
        let status = system(
            "cd '\(directory)' && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout new.key -out new.crt "
                + "-days 30 -subj '/CN=\(name)' >log 2>&1 && mv new.crt \(name).crt && mv new.key \(name).key")
        try #require(status == 0)
    }

    private var settings: TLSClientSettings {
        var settings = MartletClient.TLSSettings()
        settings.certificate = .files("\(directory)/me.crt", key: "\(directory)/me.key")
        return settings.forServer("h", provided: nil)
    }

    @Test func `a certificate that was replaced is taken at the next connection, and what cannot be used is not`() throws {
        defer { _ = system("rm -rf '\(directory)'") }
        try makeIdentity("me")
        var contexts = TLSContexts()
        func context(_ server: String, _ settings: TLSClientSettings) throws -> TLSClientContext {
            try contexts.context(for: server, settings)
        }
        let first = try context("h:1", settings)
        #expect(try context("h:1", settings) === first)
        #expect(try context("h:2", settings) !== first)
        // The certificate is there, and the key is not yet.
        try makeIdentity("other")
        try #require(system("mv '\(directory)/other.crt' '\(directory)/me.crt'") == 0)
        #expect(try context("h:1", settings) === first)
        try #require(system("mv '\(directory)/other.key' '\(directory)/me.key'") == 0)
        let second = try context("h:1", settings)
        #expect(second !== first)
        #expect(try context("h:1", settings) === second)
        var careless = settings
        careless.verifiesServer = false
        #expect(try context("h:1", careless) !== second)
    }

    @Test func `a server's name is the address's host unless another is given`() {
        var settings = MartletClient.TLSSettings()
        #expect(settings.forServer("10.0.0.1", provided: nil).serverName == "10.0.0.1")
        settings.serverName = "broker.example"
        #expect(settings.forServer("10.0.0.1", provided: nil).serverName == "broker.example")
        settings.certificate = .provider { throw ClientError.notConnected }
        let provided = settings.forServer("h", provided: .init(certificate: "c".utf8, key: "k".utf8, keyPassword: "p"))
        #expect((provided.certificate, provided.key, provided.keyPassword) == (Array("c".utf8), Array("k".utf8), "p"))
    }

    @Test func `not more contexts are kept than Limits say`() throws {
        var contexts = TLSContexts()
        let settings = MartletClient.TLSSettings().forServer("h", provided: nil)
        func context(_ server: String, _ settings: TLSClientSettings) throws -> TLSClientContext {
            try contexts.context(for: server, settings)
        }
        let first = try context("0", settings)
        for number in 1...Limits.tlsContextsMax { _ = try context("\(number)", settings) }
        #expect(try context("0", settings) !== first)
    }
}
