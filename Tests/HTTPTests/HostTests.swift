import HTTP
import Testing

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
