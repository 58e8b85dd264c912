import Testing

@testable import Transports

/// The way through a proxy, against what proxies say, wherever that is cut.
@Suite struct ProxyTunnelTests {
    private func driver(
        _ kind: ProxyTunnel.Kind, _ host: String = "broker.example", user: String? = nil, password: String? = nil
    ) -> FilterDriver {
        let driver = FilterDriver(
            ProxyTunnelFilter(ProxyTunnel(kind, host: host, port: 1883, user: user, password: password)))
        driver.begin()
        return driver
    }

    /// What the layer says to an answer.
    private func answer(_ driver: FilterDriver, _ bytes: [UInt8], piece: Int = .max) -> [UInt8] {
        let before = driver.replies.count
        var rest = bytes[...]
        while !rest.isEmpty {
            driver.receive(rest.prefix(piece))
            rest = rest.dropFirst(piece)
        }
        return Array(driver.replies[before...])
    }

    @Test(arguments: [1, 3, .max]) func `HTTP is asked with CONNECT, and what follows its answer is the server's`(piece: Int) {
        let driver = driver(.http)
        #expect(
            String(decoding: driver.replies, as: UTF8.self)
                == "CONNECT broker.example:1883 HTTP/1.1\r\nHost: broker.example:1883\r\n\r\n")
        let head = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 Connection established\r\nVia: x\r\n\r\n"
        _ = answer(driver, Array(head.utf8) + [1, 2, 3], piece: piece)
        #expect(driver.filter.isOpen && driver.filter.isSpent)
        #expect(driver.decoded == [1, 2, 3])
    }

    @Test func `HTTP is shown a login, and an address in brackets`() {
        let head = String(decoding: driver(.http, "::1", user: "me", password: "secret").replies, as: UTF8.self)
        #expect(head == "CONNECT [::1]:1883 HTTP/1.1\r\nHost: [::1]:1883\r\nProxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n")
    }

    @Test(
        arguments: [
            ("HTTP/1.1 403 Forbidden\r\n\r\n", nil, "answers 403 Forbidden"),
            ("HTTP/1.1 407 Login\r\n\r\n", nil, "answers 407 Login: it wants a user and a password"),
            ("HTTP/1.1 407 Login\r\n\r\n", "me", "answers 407 Login: user or password are wrong"),
            ("SSH-2.0-OpenSSH\r\n", nil, "does not answer in HTTP"),
            ("HTTP/1.1 200\r\n" + String(repeating: "x", count: 9000), nil, "answers with a head of more than 8192 bytes"),
        ] as [(String, String?, String)])
    func `what HTTP answers otherwise is said`(head: String, user: String?, reason: String) {
        let driver = driver(.http, user: user)
        _ = answer(driver, Array(head.utf8))
        #expect(driver.refusal == reason)
        #expect(!driver.filter.isOpen)
    }

    @Test(arguments: [1, .max]) func `SOCKS is told the server's name, and looks it up itself`(piece: Int) {
        let driver = driver(.socks5)
        #expect(driver.replies == [5, 1, 0])
        let name = Array("broker.example".utf8)
        #expect(answer(driver, [5, 0], piece: piece) == [5, 1, 0, 3, UInt8(name.count)] + name + [7, 0x5B])
        _ = answer(driver, [5, 0, 0, 3, 2, 65, 66, 0, 1], piece: piece)
        #expect(driver.filter.isOpen)
    }

    @Test func `SOCKS takes user and password, and addresses of both kinds`() {
        let driver = driver(.socks5, "10.0.0.9", user: "me", password: "no")
        #expect(driver.replies == [5, 2, 0, 2])
        #expect(answer(driver, [5, 2]) == [1, 2] + Array("me".utf8) + [2] + Array("no".utf8))
        #expect(answer(driver, [1, 0]) == [5, 1, 0, 1, 10, 0, 0, 9, 7, 0x5B])
        _ = answer(driver, [5, 0, 0, 1, 0, 0, 0, 0, 0, 0, 9, 9])
        #expect(driver.filter.isOpen)
        #expect(driver.decoded == [9, 9])
        let other = self.driver(.socks5, "::1")
        #expect(answer(other, [5, 0]) == [5, 1, 0, 4] + [UInt8](repeating: 0, count: 15) + [1, 7, 0x5B])
        _ = answer(other, [5, 0, 0, 4] + [UInt8](repeating: 0, count: 18))
        #expect(other.filter.isOpen)
    }

    @Test(
        arguments: [
            ([[4, 0]], nil, "does not speak SOCKS 5"), ([[5, 0xFF]], "me", "takes no login by user and password"),
            ([[5, 2]], nil, "wants a user and a password"), ([[5, 7]], nil, "wants a login that it was not offered"),
            ([[5, 2], [1, 1]], "me", "refuses the user and the password"), ([[5, 0], [5, 5]], nil, "says: connection refused"),
            ([[5, 0], [5, 2]], nil, "does not let us connect there"),
            ([[5, 0], [5, 99]], nil, "cannot make the connection (reply 99)"),
            ([[5, 0], [5, 0, 0, 9, 0]], nil, "answers with an address of the unknown kind 9"),
            ([Array("HTTP/1.1 400 Bad Request".utf8)], nil, "does not speak SOCKS 5"),
        ] as [([[UInt8]], String?, String)])
    func `what SOCKS answers otherwise is said`(answers: [[UInt8]], user: String?, reason: String) {
        let driver = driver(.socks5, user: user)
        for bytes in answers { _ = answer(driver, bytes) }
        #expect(driver.refusal == reason)
        #expect(!driver.filter.isOpen)
    }
}
