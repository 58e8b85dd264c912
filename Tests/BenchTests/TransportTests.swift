import Testing

@testable import Bench

@Suite struct TransportTests {
    @Test(
        arguments: [
            (false, false, "TCP", 1883), (true, false, "TLS", 8883), (false, true, "WebSocket", 1883),
            (true, true, "WebSocket over TLS", 8883),
        ] as [(Bool, Bool, String, UInt16)])
    func `a transport has a name and a usual port`(usesTLS: Bool, usesWebSocket: Bool, name: String, port: UInt16) {
        var options = BenchOptions()
        options.transport.usesTLS = usesTLS
        options.transport.usesWebSocket = usesWebSocket
        #expect(options.transport.name == name)
        #expect(options.brokerPort == port)
        options.port = 7
        #expect(options.brokerPort == 7)
    }

    @Test(arguments: [("broker", "broker:80"), ("::1", "[::1]:80")])
    func `an address with colons is put in brackets`(host: String, authority: String) {
        var options = BenchOptions()
        (options.host, options.port) = (host, 80)
        #expect(options.brokerAddress == authority)
    }

    @Test func `an authority's file that is not there is told`() {
        var options = BenchOptions()
        options.transport.usesTLS = true
        options.transport.authoritiesFile = "/nowhere"
        #expect {
            try ChannelMaker(options)
        } throws: { error in
            "\(error)" == "cafile /nowhere: No such file or directory"
        }
    }
}
