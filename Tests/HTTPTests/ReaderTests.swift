import Testing

@testable import HTTP

@Suite struct ReaderTests {
    @Test func `a request is read whole, its path parted before it is decoded`() throws {
        var reader = HTTPRequestReader(bodyBytesMax: 100)
        reader.append(
            "POST /clients/a%2Fb/?q=a+b&x=%C3%A4&y HTTP/1.1\r\nHost: Broker.Example:9883\r\nCookie: a=1; b=\"2\"\r\nContent-Length: 3\r\n\r\nabc"
                .utf8)
        guard case .request(let request) = reader.next() else {
            Issue.record("no request")
            return
        }
        #expect(request.method == .post)
        #expect(request.segments == ["clients", "a/b", ""])
        #expect(request.query["q"] == "a b")
        #expect(request.query["x"] == "ä")
        #expect(request.query.has("y"))
        #expect(request.host == "broker.example:9883")
        #expect(request.cookie("b") == "2")
        #expect(request.body == Array("abc".utf8))
        #expect(reader.next() == .needsMore)
        #expect(reader.phase == .idle)
    }

    @Test func `requests that come together are given one after the other`() {
        var reader = HTTPRequestReader(bodyBytesMax: 100)
        reader.append("GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\nGET /c HT".utf8)
        var paths: [String] = []
        while case .request(let request) = reader.next() { paths.append(request.path) }
        #expect(paths == ["/a", "/b"])
        #expect(reader.phase == .head)
    }
}

@Suite struct HostTests {
    @Test(arguments: [
        ("LocalHost:80", "localhost", true, false), ("127.0.0.1", "127.0.0.1", true, true),
        ("127.1.2.3:1", "127.1.2.3", true, true),
        ("[::1]:9001", "[::1]", true, true), ("[2001:db8::1]", "[2001:db8::1]", false, true),
        ("192.0.2.1", "192.0.2.1", false, true),
        ("127.0.0.1.example", "127.0.0.1.example", false, false), ("127.0.0", "127.0.0", false, false),
        ("127.0.0.256", "127.0.0.256", false, false), ("127.0..1", "127.0..1", false, false), ("", "", false, false),
        ("localhost.example", "localhost.example", false, false),
    ])
    func `a host is a name or an address, and may be this machine`(text: String, name: String, isLoopback: Bool, isAddress: Bool) {
        let host = HTTPHost(text)
        #expect(host.name == name && host.isLoopback == isLoopback && host.isAddress == isAddress)
    }

    @Test(arguments: [
        ("http://localhost:9883", "localhost"), ("HTTPS://A.example", "a.example"), ("null", nil), ("file://", nil),
        ("http://", nil),
        ("localhost", nil), ("chrome-extension://abc", nil),
    ])
    func `an origin names the host of its page`(origin: String, name: String?) {
        #expect(HTTPHost(origin: origin)?.name == name)
    }
}
