import Testing

@testable import Transports

/// The client's side of TLS, against the server's own.
@Suite struct TLSClientTests {
    let authority: TestAuthority

    init() throws {
        authority = try TestAuthority()
        authority.issue("server", subject: "/CN=localhost")
    }

    private func server(_ change: (inout TLSSettings) -> Void = { _ in }) throws -> TLSContext {
        var settings = TLSSettings()
        settings.certificateFile = authority.path("server.crt")
        settings.keyFile = authority.path("server.key")
        change(&settings)
        return try TLSContext(settings)
    }

    private func client(
        _ name: String = "localhost", _ change: (inout TLSClientSettings) -> Void = { _ in }
    ) throws -> TLSClientContext {
        var settings = TLSClientSettings(serverName: name)
        settings.authoritiesFile = authority.path("ca.crt")
        change(&settings)
        return try TLSClientContext(settings)
    }

    /// One connection between both; the two ends after their handshake.
    private func connect(
        _ client: TLSClientContext, _ server: TLSContext, piece: Int = .max
    ) throws -> (client: FilterDriver, server: FilterDriver) {
        let ends = (FilterDriver(try #require(TLSFilter(client))), FilterDriver(try #require(TLSFilter(server))))
        FilterDriver.converse(ends.0, ends.1, piece: piece)
        return ends
    }

    @Test(arguments: [1, 100, .max]) func `both sides open and pass bytes, wherever they are cut`(piece: Int) throws {
        let context = try client()
        let ends = try connect(context, try server(), piece: piece)
        #expect(ends.client.filter.isOpen && ends.server.filter.isOpen)
        #expect(context.handshakeCount == 1 && context.resumedCount == 0)
        #expect(context.encryption == "TLSv1.3 cipher TLS_AES_256_GCM_SHA384")
        let bytes = (0..<40_000).map { UInt8(truncatingIfNeeded: $0 &* 13) }
        ends.server.receive(try ends.client.send([bytes]))
        ends.client.receive(try ends.server.send([bytes]))
        #expect(ends.server.decoded == bytes && ends.client.decoded == bytes)
        ends.server.receive(ends.client.finish())
        #expect(ends.server.hasEndedInOrder)
    }

    @Test(arguments: ["elsewhere.example", "127.0.0.1"])
    func `a certificate for another name is refused`(name: String) throws {
        let ends = try connect(try client(name), try server())
        #expect(ends.client.refusal?.hasPrefix("certificate verify failed: ") == true)
        #expect(!ends.client.filter.isOpen)
        #expect(ends.server.refusal != nil, "the server gets an alert")
    }

    @Test func `a certificate of an unknown authority is refused, but by a client that does not look`() throws {
        let stranger = try TestAuthority()
        let wary = try client { $0.authoritiesFile = stranger.path("ca.crt") }
        #expect(try connect(wary, try server()).client.refusal?.hasPrefix("certificate verify failed: ") == true)
        let careless = try client("elsewhere.example") {
            $0.authoritiesFile = nil
            $0.verifiesServer = false
        }
        #expect(try connect(careless, try server()).client.filter.isOpen)
    }

    @Test func `a session is resumed if that is asked for`() throws {
        let (server, forgetful, mindful) = (try server(), try client(), try client { $0.resumesSessions = true })
        #expect(forgetful.isReadyToResume && !mindful.isReadyToResume)
        for _ in 0..<3 {
            for context in [forgetful, mindful] { #expect(try connect(context, server).client.filter.isOpen) }
        }
        #expect(mindful.isReadyToResume)
        #expect(forgetful.handshakeCount == 3 && forgetful.resumedCount == 0)
        #expect(mindful.handshakeCount == 3 && mindful.resumedCount == 2)
    }

    @Test func `a client shows its certificate to a server that demands one`() throws {
        authority.issue("client", subject: "/CN=martin")
        let server = try server {
            $0.authoritiesFile = authority.path("ca.crt")
            $0.requiresCertificate = true
        }
        let known = try connect(
            try client {
                $0.certificateFile = authority.path("client.crt")
                $0.keyFile = authority.path("client.key")
            }, server)
        var identity = PeerIdentity()
        known.server.filter.describe(&identity)
        #expect(identity.certificateCommonName == "martin")
        #expect(try connect(try client(), server).server.refusal == "peer did not return a certificate")
    }

    @Test func `certificate, key and authorities may be in memory, and the key under a password`() throws {
        authority.issue("client", subject: "/CN=martin")
        authority.encryptKey("client", password: "open")
        let server = try server {
            $0.authoritiesFile = authority.path("ca.crt")
            $0.requiresCertificate = true
        }
        let (certificate, chain) = (try authority.bytes("client.crt"), try authority.bytes("ca.crt"))
        let (key, locked) = (try authority.bytes("client.key"), try authority.bytes("client.enc"))
        let contexts = [
            try client {
                ($0.authoritiesFile, $0.authorities) = (nil, chain)
                ($0.certificate, $0.key) = (certificate, key)
            },
            try client { ($0.certificate, $0.key, $0.keyPassword) = (certificate + chain, locked, "open") },
            try client {
                ($0.certificateFile, $0.keyFile) = (authority.path("client.crt"), authority.path("client.enc"))
                $0.keyPassword = "open"
            },
        ]
        for context in contexts {
            let ends = try connect(context, server)
            var identity = PeerIdentity()
            ends.server.filter.describe(&identity)
            #expect(identity.certificateCommonName == "martin")
        }
        let stranger = try TestAuthority()
        let foreign = try stranger.bytes("ca.crt")
        let wary = try client { ($0.authoritiesFile, $0.authorities) = (nil, foreign) }
        #expect(try connect(wary, try self.server()).client.refusal?.hasPrefix("certificate verify failed: ") == true)
    }

    @Test func `what is wrong in memory is said`() throws {
        authority.issue("client", subject: "/CN=martin")
        authority.encryptKey("client", password: "open")
        let (certificate, other) = (try authority.bytes("client.crt"), try authority.bytes("server.key"))
        let locked = try authority.bytes("client.enc")
        func complaint(_ certificate: [UInt8], _ key: [UInt8], _ password: String? = nil) -> String? {
            do throws(TLSFailure) {
                var settings = TLSClientSettings(serverName: "h")
                (settings.certificate, settings.key, settings.keyPassword) = (certificate, key, password)
                _ = try TLSClientContext(settings)
                return nil
            } catch {
                return "\(error)"
            }
        }
        #expect(complaint([], other)?.hasPrefix("certificate in memory: it holds no certificate in PEM") == true)
        #expect(
            complaint(certificate + Array("-----BEGIN CERTIFICATE-----\nx".utf8), other)?.hasPrefix("certificate in memory: ")
                == true)
        #expect(complaint(certificate, []) != nil)
        #expect(complaint(certificate, other) == "key in memory: the key does not match the certificate")
        #expect(complaint(certificate, locked)?.hasPrefix("key in memory: ") == true)
        #expect(complaint(certificate, locked, "shut")?.hasPrefix("key in memory: ") == true)
        #expect(complaint(certificate, locked, String(repeating: "x", count: 5000))?.hasPrefix("key in memory: ") == true)
        #expect(complaint(certificate, locked, "open") == nil)
        #expect(throws: TLSFailure.self) { try client { ($0.authoritiesFile, $0.authorities) = (nil, [1]) } }
    }

    @Test func `a file that cannot be used is named`() throws {
        #expect(throws: TLSFailure(option: "cafile", value: "/nowhere", reason: "No such file or directory")) {
            try client { $0.authoritiesFile = "/nowhere" }
        }
        #expect(throws: TLSFailure.self) { try client { $0.authoritiesFile = authority.path("ca.key") } }
        #expect(throws: TLSFailure.self) {
            try client {
                $0.certificateFile = authority.path("server.crt")
                $0.keyFile = authority.path("ca.key")
            }
        }
    }
}
