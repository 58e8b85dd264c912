import MartletClient
import Testing

@Suite struct ServerAddressTests {
    @Test(arguments: [
        ("mqtt://host", "mqtt://host:1883"), ("host", "mqtt://host:1883"), ("host:1884", "mqtt://host:1884"),
        ("mqtts://host", "mqtts://host:8883"), ("MQTTS://host:1", "mqtts://host:1"), ("tcp://h", "mqtt://h:1883"),
        ("ssl://h", "mqtts://h:8883"), ("ws://host", "ws://host:80/mqtt"), ("wss://host/", "wss://host:443/mqtt"),
        ("wss://host:8084/a/b?c", "wss://host:8084/a/b?c"), ("ws://host?token=1", "ws://host:80/mqtt?token=1"),
        ("ws://host:9?t=a@b/c:d", "ws://host:9/mqtt?t=a@b/c:d"), ("wss://host/?x", "wss://host:443/?x"),
        ("mqtt://[::1]:5", "mqtt://[::1]:5"), ("::1", "mqtt://[::1]:1883"),
        ("mqtt://10.0.0.1/", "mqtt://10.0.0.1:1883"), ("unix:/run/b.sock", "unix:/run/b.sock"),
        ("unix:///run/b.sock", "unix:/run/b.sock"),
    ])
    func `an address is read`(text: String, whole: String) throws {
        #expect(try ServerAddress(text).description == whole)
    }

    @Test(arguments: [
        ("http://host", "it begins with mqtt://, mqtts://, ws://, wss:// or unix:"),
        ("mqtt://host/path", "only ws:// and wss:// have a path or a query"),
        ("mqtt://host?x", "only ws:// and wss:// have a path or a query"),
        ("ws://host/a#b", "an address has no # and what follows it"),
        ("ws://host/a b", "a path has no blanks and nothing beyond ASCII: %20 stands for a blank"),
        ("ws://host/\r\nX: y", "a path has no blanks and nothing beyond ASCII: %20 stands for a blank"),
        ("mqtt://me:secret@host", "user and password belong into the settings' login"),
        ("mqtt://", "what follows mqtt:// is HOST or HOST:PORT, an IPv6 address in brackets"),
        ("mqtt://host:0", "what follows mqtt:// is HOST or HOST:PORT, an IPv6 address in brackets"),
        ("mqtt://host:65536", "what follows mqtt:// is HOST or HOST:PORT, an IPv6 address in brackets"),
        ("mqtt://host:", "what follows mqtt:// is HOST or HOST:PORT, an IPv6 address in brackets"),
        ("mqtt://[::1", "what follows mqtt:// is HOST or HOST:PORT, an IPv6 address in brackets"),
        ("mqtt://[::1]x", "what follows mqtt:// is HOST or HOST:PORT, an IPv6 address in brackets"),
        ("wss://ho st", "what follows wss:// is HOST or HOST:PORT, an IPv6 address in brackets"),
        ("unix:", "a socket's path has 1 to 107 bytes"),
    ])
    func `what is no address is refused with what would be right`(text: String, reason: String) {
        #expect(throws: ClientError.settings("server address \(text): \(reason)")) { try ServerAddress(text) }
        // A literal is refused by the client.
        #expect(throws: ClientError.settings("server address \(text): \(reason)")) {
            try Client(ClientSettings(server: ServerAddress(stringLiteral: text)))
        }
    }

    @Test func `settings that cannot be are named`() {
        func complaint(_ change: (inout ClientSettings) -> Void) -> String? {
            var settings = ClientSettings(server: "mqtt://127.0.0.1:1")
            change(&settings)
            do throws(ClientError) {
                _ = try Client(settings)
                return nil
            } catch {
                return "\(error)"
            }
        }
        #expect(complaint { $0.servers = [] } == "servers: at least one has to be named")
        #expect(complaint { $0.inFlight = 0 } == "inFlight: 1 to 65535 messages, not 0")
        #expect(complaint { $0.receiveMaximum = 0 } == "receiveMaximum: 1 to 65535 messages")
        #expect(complaint { $0.queue.messages = 0 } == "queue: at least one message and one byte")
        #expect(complaint { $0.keepAlive = .seconds(70_000) } == "keepAlive: at most 65535 seconds")
        #expect(
            complaint { $0.clientIdentifier = "a\0b" }
                == "clientIdentifier: at most 65,535 bytes, without the character U+0000")
        #expect(complaint { $0.reconnect.jitter = 2 } == "reconnect.jitter: 0 to 1, not 2.0")
        #expect(complaint { $0.reconnect.attemptsMax = -1 } == "reconnect.attemptsMax: 0 or more, or nil for no end")
        #expect(complaint { $0.firstServerCheck = .zero } == "firstServerCheck: longer than nothing")
        #expect(complaint { $0.proxy = "nonsense" } == "proxy: its address begins with socks5h:// or http://")
        #expect(complaint { $0.servers[0].proxy = "ftp://h" } == "proxy: its address begins with socks5h:// or http://")
        #expect(
            complaint { $0.servers[0].webSocketHeaders = ["a": "b"] }
                == "server address mqtt://127.0.0.1:1: only ws:// and wss:// have webSocketHeaders")
        #expect(
            complaint {
                $0.servers = ["ws://h"]
                $0.servers[0].webSocketHeaders = ["Host": "b"]
            } == "webSocketHeaders: Host is set by the handshake itself")
        #expect(
            complaint {
                $0.servers = ["unix:/x"]
                $0.servers[0].proxy = "http://h"
            } == "server address unix:/x: only addresses with a host have a proxy")
        #expect(
            complaint {
                $0.version = .v311
                $0.servers[0].login = .scram(user: "a", password: "b")
            } == "login: extended authentication needs MQTT 5.0, which the settings' version is not")
        #expect(complaint { _ in } == nil)
    }

    @Test(arguments: [
        ("socks5h://h", "socks5h://h:1080"), ("SOCKS5://me:secret@h:7/", "socks5://h:7"), ("http://h", "http://h:80"),
        ("http://a%40b:c%3Ad@[::1]:8080", "http://[::1]:8080"),
    ])
    func `a proxy's address is read, and shown without its password`(text: String, whole: String) throws {
        #expect("\(try ProxyAddress(text))" == whole)
    }

    @Test(arguments: [
        ("h:1080", "its address begins with socks5h:// or http://"), ("https://h", "its address begins with socks5h:// or http://"),
        ("http://%zz@h", "the user in front of the @ cannot be read: %25 stands for a percent sign"),
        ("http://a:%@h", "the password in front of the @ cannot be read: %25 stands for a percent sign"),
        ("http://a%3Ab@h", "a user of HTTP's basic login has no colon"),
        ("socks5h://\(String(repeating: "x", count: 256))@h", "user and password of SOCKS have at most 255 bytes each"),
        (
            "http://",
            "what follows http:// is HOST or HOST:PORT, an IPv6 address in brackets, with USER:PASSWORD@ in front of it if it wants them"
        ),
    ])
    func `what is no proxy's address is refused with what would be right`(text: String, reason: String) {
        #expect(throws: ClientError.settings("proxy: \(reason)")) { try ProxyAddress(text) }
    }
}
