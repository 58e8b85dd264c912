import Configuration
import Testing
import Transports

@testable import MartletServer

@Suite struct GreetingTests {
    private func text(_ places: [(SocketAddress, ListenerConfiguration)], loops: Int = 1) -> String {
        Greeting(places.map { (address: $0.0, listener: $0.1) }, loopCount: loops).text
    }

    private let mqtt = ListenerConfiguration(endpoint: .tcp(port: 0, host: nil))

    @Test func `the default port needs no option`() {
        #expect(
            text([(.loopbackIPv4(port: 1883), mqtt), (.loopbackIPv6(port: 1883), mqtt)])
                == "martlet version \(ProductVersion.text) running on 127.0.0.1:1883, [::1]:1883 (1 loop). "
                + "Try: mosquitto_sub -v -t 'hello/#'")
    }

    @Test func `the first listener that needs no key is the one to try`() {
        var webSocket = mqtt
        webSocket.application = .webSockets
        #expect(
            text([(.anyIPv4(port: 8080), webSocket), (.anyIPv4(port: 1884), mqtt), (.anyIPv4(port: 1885), mqtt)], loops: 4)
                .hasSuffix("(4 loops). Try: mosquitto_sub -p 1884 -v -t 'hello/#'"))
        #expect(text([(.anyIPv4(port: 8080), webSocket)]).hasSuffix("running on 0.0.0.0:8080 (1 loop)."))
    }

    @Test func `a Unix socket is tried by its path`() throws {
        let address = try #require(SocketAddress.unix(path: "/run/martlet.sock"))
        #expect(text([(address, mqtt)]).hasSuffix("Try: mosquitto_sub --unix /run/martlet.sock -v -t 'hello/#'"))
    }
}
