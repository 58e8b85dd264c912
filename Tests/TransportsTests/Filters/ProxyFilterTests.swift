import Testing

@testable import Transports

@Suite struct ProxyFilterTests {
    static let signature: [UInt8] = [0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A]
    static let addresses: [UInt8] = [192, 0, 2, 5, 192, 0, 2, 1, 0xC4, 0x88, 0x07, 0x5B]

    /// A header of version 2; `command` 0x21 is PROXY, `family` 0x11 TCP over IPv4.
    static func header(_ body: [UInt8], command: UInt8 = 0x21, family: UInt8 = 0x11) -> [UInt8] {
        signature + [command, family, UInt8(body.count >> 8), UInt8(body.count & 0xFF)] + body
    }

    static func value(_ type: UInt8, _ bytes: [UInt8]) -> [UInt8] {
        [type, UInt8(bytes.count >> 8), UInt8(bytes.count & 0xFF)] + bytes
    }

    static func tls(client: UInt8 = 0x07, verify: UInt8 = 0) -> [UInt8] {
        value(0x20, [client, 0, 0, 0, verify] + value(0x21, Array("TLSv1.3".utf8)) + value(0x22, Array("martin".utf8)))
    }

    static func identity(of driver: FilterDriver) -> PeerIdentity {
        var identity = PeerIdentity()
        driver.filter.describe(&identity)
        return identity
    }

    @Test(
        arguments: [
            ("PROXY TCP4 192.0.2.5 192.0.2.1 50312 1883", "192.0.2.5:50312"),
            ("PROXY TCP6 2001:db8::5 2001:db8::1 50312 1883", "2001:db8::5:50312"),
            ("PROXY UNKNOWN", nil), ("PROXY UNKNOWN whatever it says", nil),
        ] as [(String, String?)])
    func `a header of version 1 gives the address, wherever it is cut`(line: String, address: String?) {
        let bytes = Array("\(line)\r\n".utf8) + [0x10, 0x0C]
        for (first, second) in splits(bytes) {
            let driver = FilterDriver(ProxyFilter(ProxyProtocolSettings(version: .v1)))
            driver.receive(first)
            driver.receive(second)
            #expect(driver.decoded == [0x10, 0x0C])
            #expect(Self.identity(of: driver).forwardedAddress?.description == address)
            #expect(driver.filter.isSpent)
        }
    }

    @Test(arguments: [
        "PROXY TCP3 192.0.2.5 127.0.0.1 6275 1234\r\n", "PROXY TCP4 192.0.2.5 127.0.0.1 6275\r\n", "PROXY TCP4 \r\n",
        "PROXY TCP4 192.0.2.5 127.0.0.1 6275 1234 \r\n", "PROXY TCP4 192.0.2.5  127.0.0.1 6275 1234\r\n",
        "PROXY TCP4 192.0.2 127.0.0.1 6275 1234\r\n", "PROXY TCP4 192.0.2.5 127.0.0.1 62750 123456\r\n",
        "PROXY TCP4 192.0.2.5 127.0.0.1 06275 1234\r\n", "PROXY TCP4 2001:db8::5 ::1 6275 1234\r\n",
        "PROXY TCP6 192.0.2.5 127.0.0.1 6275 1234\r\n", "PROXY UNKNOWN\n", "proxy UNKNOWN\r\n", "\r\n",
        "\u{10}\u{0C}\u{0}\u{4}MQTT",
        "PROXY UNKNOWN " + String(repeating: "x", count: 100) + "\r\n",
    ])
    func `a malformed header of version 1 ends the connection`(line: String) {
        let driver = FilterDriver(ProxyFilter(ProxyProtocolSettings(version: .v1)))
        for byte in line.utf8 { driver.receive([byte]) }
        #expect(driver.refusal?.hasPrefix("Connection rejected, corrupt PROXY header.") == true)
        #expect(driver.decoded.isEmpty)
    }

    @Test func `a header of version 2 gives address, name and cipher, wherever it is cut`() {
        let bytes = Self.header(Self.addresses + Self.value(0x04, [0, 0]) + Self.tls()) + [0x10, 0x0C]
        for (first, second) in splits(bytes) {
            let driver = FilterDriver(
                ProxyFilter(ProxyProtocolSettings(version: .v2, requiresTLS: true, requiresCertificate: true)))
            driver.receive(first)
            driver.receive(second)
            #expect(driver.decoded == [0x10, 0x0C])
            let identity = Self.identity(of: driver)
            #expect(identity.forwardedAddress?.description == "192.0.2.5:50312")
            #expect(identity.certificateCommonName == "martin")
        }
    }

    @Test func `IPv6, Unix, unspecified and the proxy itself are told apart`() {
        let v6 = [UInt8](repeating: 0, count: 15) + [1] + [UInt8](repeating: 0, count: 16) + [0, 80, 0, 81]
        let cases: [([UInt8], String?)] = [
            (Self.header(v6, family: 0x21), "::1:80"),
            (Self.header([UInt8](repeating: 0, count: 216), family: 0x31), "local"),
            (Self.header([], family: 0x00), nil), (Self.header([], command: 0x20, family: 0x00), nil),
            (Self.header(Self.addresses, command: 0x20), nil),
        ]
        for (bytes, address) in cases {
            let driver = FilterDriver(ProxyFilter(ProxyProtocolSettings(version: .v2)))
            driver.receive(bytes)
            #expect(driver.filter.isSpent)
            #expect(Self.identity(of: driver).forwardedAddress?.description == address)
        }
    }

    @Test(arguments: [
        signature + [0x31, 0x11, 0, 12] + addresses, header(addresses, command: 0x22), header(addresses, family: 0x12),
        header(Array(addresses.dropLast())), header(addresses + [0x04, 0]), header(addresses + [0x04, 0, 5, 1]),
        header(addresses + value(0x20, [7, 0, 0])), header(addresses + value(0x03, [0, 0, 0, 0])),
        header(addresses + value(0x03, [0])),
        signature + [0x21, 0x11, 0xFF, 0xFF], [0x10, 0x0C, 0x00, 0x04],
    ])
    func `a malformed header of version 2 ends the connection`(bytes: [UInt8]) {
        let driver = FilterDriver(ProxyFilter(ProxyProtocolSettings(version: .v2)))
        driver.receive(bytes)
        #expect(driver.refusal?.hasPrefix("Connection rejected, corrupt PROXY header.") == true)
    }

    @Test func `a right checksum is accepted`() {
        #expect(CyclicRedundancyCheck.castagnoli("123456789".utf8) == 0xE306_9283)
        let zeroed = Self.header(Self.addresses + Self.value(0x03, [0, 0, 0, 0]))
        let sum = CyclicRedundancyCheck.castagnoli(zeroed)
        let checksum = (0..<4).map { UInt8(truncatingIfNeeded: sum >> (24 - 8 * UInt32($0))) }
        let driver = FilterDriver(ProxyFilter(ProxyProtocolSettings(version: .v2)))
        driver.receive(zeroed.dropLast(4) + checksum)
        #expect(driver.end == nil)
        #expect(driver.filter.isSpent)
    }

    @Test(arguments: [
        (addresses, "client did not connect using TLS."), (addresses + tls(client: 0), "client did not connect using TLS."),
        (addresses + tls(client: 1), "client did not provide a certificate."),
        (addresses + tls(verify: 1), "client did not provide a certificate."),
    ])
    func `what the proxy must vouch for, and does not, ends the connection`(body: [UInt8], reason: String) {
        let settings = ProxyProtocolSettings(version: .v2, requiresTLS: true, requiresCertificate: true)
        let driver = FilterDriver(ProxyFilter(settings))
        driver.receive(Self.header(body))
        #expect(driver.refusal == "Connection from 192.0.2.5:50312 rejected, \(reason)")
    }

    @Test func `a name that the proxy has not verified is no identity`() {
        let driver = FilterDriver(ProxyFilter(ProxyProtocolSettings(version: .v2)))
        driver.receive(Self.header(Self.addresses + Self.tls(verify: 1)))
        #expect(Self.identity(of: driver).certificateCommonName == nil)
    }
}
