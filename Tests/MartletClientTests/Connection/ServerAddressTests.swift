import MartletClient
import Testing

@Suite struct ServerAddressTests {
    @Test(arguments: [
        ("mqtt://host", "mqtt://host:1883"), ("host", "mqtt://host:1883"), ("host:1884", "mqtt://host:1884"),
        ("mqtts://host", "mqtts://host:8883"), ("MQTTS://host:1", "mqtts://host:1"), ("tcp://h", "mqtt://h:1883"),
        ("ssl://h", "mqtts://h:8883"), ("ws://host", "ws://host:80/mqtt"), ("wss://host/", "wss://host:443/mqtt"),
        ("wss://host:8084/a/b?c", "wss://host:8084/a/b?c"), ("mqtt://[::1]:5", "mqtt://[::1]:5"), ("::1", "mqtt://[::1]:1883"),
        ("mqtt://10.0.0.1/", "mqtt://10.0.0.1:1883"), ("unix:/run/b.sock", "unix:/run/b.sock"),
        ("unix:///run/b.sock", "unix:/run/b.sock"),
    ])
    func `an address is read`(text: String, whole: String) throws {
        #expect(try ServerAddress(text).description == whole)
    }

    @Test(arguments: [
        ("http://host", "it begins with mqtt://, mqtts://, ws://, wss:// or unix:"),
        ("mqtt://host/path", "only ws:// and wss:// have a path"),
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
        #expect(complaint { _ in } == nil)
    }
}
