import Glibc
import Testing

@testable import Transports

@Suite struct TLSFilterTests {
    let authority: TestAuthority

    init() throws {
        authority = try TestAuthority()
        authority.issue("server", subject: "/CN=localhost")
    }

    private func settings() -> TLSSettings {
        var settings = TLSSettings()
        settings.certificateFile = authority.path("server.crt")
        settings.keyFile = authority.path("server.key")
        return settings
    }

    /// Lets both sides talk until neither has anything to say; `piece` bytes at a time reach the server.
    private func open(_ driver: FilterDriver, _ client: TLSClient, piece: Int = .max) {
        var told = 0
        var toServer = client.exchange([])
        while !toServer.isEmpty {
            var rest = toServer[...]
            while !rest.isEmpty {
                driver.receive(rest.prefix(piece))
                rest = rest.dropFirst(piece)
            }
            toServer = client.exchange(Array(driver.replies[told...]))
            told = driver.replies.count
        }
    }

    private func driver(_ settings: TLSSettings) throws -> FilterDriver {
        FilterDriver(try #require(TLSFilter(try TLSContext(settings))))
    }

    @Test(arguments: [1, 2, 5, 100, .max]) func `handshake and data may be cut anywhere`(piece: Int) throws {
        let driver = try driver(settings())
        let client = try #require(TLSClient(authority: authority.path("ca.crt")))
        open(driver, client, piece: piece)
        #expect(driver.filter.isOpen && client.isOpen)
        let bytes = (0..<40_000).map { UInt8(truncatingIfNeeded: $0 &* 13) }
        var rest = client.send(bytes)[...]
        while !rest.isEmpty {
            driver.receive(rest.prefix(piece))
            rest = rest.dropFirst(piece)
        }
        #expect(driver.decoded == bytes)
        _ = client.exchange(try driver.send([Array(bytes[..<10]), [], Array(bytes[10...])]))
        #expect(client.received == bytes)
        driver.receive(client.close())
        #expect(driver.hasEndedInOrder)
        #expect(!driver.finish().isEmpty, "a close is answered")
    }

    @Test func `a flush of many small messages is one record`() throws {
        let driver = try driver(settings())
        let client = try #require(TLSClient(authority: authority.path("ca.crt")))
        open(driver, client)
        let small = (0..<200).map { [UInt8](repeating: UInt8($0), count: 64) }
        let records = try driver.send(small)
        #expect(Int(records[3]) << 8 | Int(records[4]) == records.count - 5, "the first record's length is all there is")
        _ = client.exchange(records)
        #expect(client.received == small.flatMap { $0 })
        let large = try driver.send([[UInt8](repeating: 1, count: 100), [UInt8](repeating: 2, count: 50_000)])
        #expect(large.count < 50_100 + 4 * 40, "four records of 16 KiB at most")
    }

    @Test func `the certificate of a client is known by its names`() throws {
        authority.issue("client", subject: "/O=Birds/CN=martin")
        var settings = settings()
        settings.authoritiesFile = authority.path("ca.crt")
        settings.requiresCertificate = true
        let driver = try driver(settings)
        let client = try #require(
            TLSClient(
                authority: authority.path("ca.crt"), certificate: authority.path("client.crt"), key: authority.path("client.key")))
        open(driver, client)
        var identity = PeerIdentity()
        driver.filter.describe(&identity)
        #expect(identity.certificateCommonName == "martin")
        #expect(identity.certificateSubject == "CN=martin,O=Birds")
        #expect(identity.encryption == "TLSv1.3 cipher TLS_AES_256_GCM_SHA384")
    }

    @Test func `a client without the certificate that is demanded is refused, and gets an alert`() throws {
        var settings = settings()
        settings.authoritiesFile = authority.path("ca.crt")
        settings.requiresCertificate = true
        let driver = try driver(settings)
        let client = try #require(TLSClient(authority: authority.path("ca.crt")))
        open(driver, client)
        #expect(driver.refusal == "peer did not return a certificate")
        #expect(!driver.filter.isOpen)
    }

    @Test func `bytes that are no TLS are refused`() throws {
        for bytes in [[0x10, 0x0C, 0, 4, 0x4D, 0x51], Array("GET / HTTP/1.1\r\n\r\n".utf8), [0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]]
            as [[UInt8]]
        {
            let driver = try driver(settings())
            driver.receive(bytes)
            #expect(driver.refusal != nil)
        }
    }

    @Test func `new files are found, and broken ones leave the old in use`() throws {
        let server = try TLSServer(settings())
        let first = server.current
        guard case .unchanged = server.refreshIfChanged() else {
            Issue.record("nothing has changed")
            return
        }
        authority.issue("server", subject: "/CN=renewed")
        guard case .renewed = server.refreshIfChanged() else {
            Issue.record("the files have changed")
            return
        }
        let second = server.current
        #expect(second !== first)
        authority.issue("other", subject: "/CN=other")
        try overwrite("server.key", with: "other.key")
        guard case .failed(let failure) = server.refreshIfChanged() else {
            Issue.record("the key belongs to another certificate")
            return
        }
        #expect(failure.reason == "the key does not match the certificate in \(authority.path("server.crt"))")
        #expect(server.current === second)
        guard case .unchanged = server.refreshIfChanged() else {
            Issue.record("told once")
            return
        }
    }

    private func overwrite(_ file: String, with other: String) throws {
        try #require(rename(authority.path(other), authority.path(file)) == 0)
    }
}
