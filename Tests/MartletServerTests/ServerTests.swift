import Configuration
import Glibc
import MQTTCodec
import Platform
import Testing

@testable import MartletServer
@testable import ServerLoops

/// The broker as a process runs it, with its threads, on a port of the loopback that the kernel chooses. What a process
/// hears as signals the control thread is sent alone: it hears those as it hears the process's.
@Suite(.timeLimit(.minutes(10))) struct ServerTests {
    /// A broker whose control thread is one of the test's process.
    private final class RunningServer: @unchecked Sendable {
        let log: Log
        /// What the configuration file holds when it is read again.
        let file: Locked<ConfigurationResult>
        private let state = Locked<(server: Server?, thread: pthread_t?, error: String?)>((nil, nil, nil))
        private let monitor = Monitor()
        private var thread: NamedThread?

        /// Returns when it listens.
        init(_ configuration: BrokerConfiguration) throws {
            log = try Log(configuration.logging)
            file = Locked(ConfigurationResult(configuration: configuration, diagnostics: []))
            thread = try NamedThread.start(name: "control") { [self] in run(configuration) }
            monitor.withLock {
                while state.withLock({ $0.server == nil && $0.error == nil }) { monitor.wait() }
            }
            if let error = state.withLock({ $0.error }) { throw Failure(text: error) }
        }

        private func run(_ configuration: BrokerConfiguration) {
            do throws(ServerError) {
                let server = try Server(configuration: configuration, file: "martlet.conf", log: log) { [file] in file.value }
                report { $0 = (server, pthread_self(), nil) }
                try server.run()
            } catch {
                report { $0.error = "\(error)" }
            }
        }

        private func report(_ change: (inout (server: Server?, thread: pthread_t?, error: String?)) -> Void) {
            monitor.withLock {
                state.withLock { change(&$0) }
                monitor.signal()
            }
        }

        var server: Server? { state.withLock { $0.server } }

        /// Of the first address.
        var port: UInt16 { server?.addresses.first.flatMap { $0.split(separator: ":").last }.flatMap { UInt16($0) } ?? 0 }

        var error: String? { state.withLock { $0.error } }

        /// The control thread hears a signal.
        func signal(_ number: Int32) {
            if let thread = state.withLock({ $0.thread }) { pthread_kill(thread, number) }
        }

        /// Returns when the broker has ended.
        func join() { thread?.join() }
    }

    private struct Failure: Error {
        let text: String
    }

    /// An MQTT 5 client on a socket that blocks, for a minute at most.
    private final class SocketClient {
        private var socket: Int32
        private var bytes: [UInt8] = []

        init(_ port: UInt16) throws {
            socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            var patience = timeval(tv_sec: 60, tv_usec: 0)
            setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
            let answer = withUnsafePointer(to: address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    Glibc.connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            guard answer == 0 else { throw Failure(text: "connect: \(errno)") }
        }

        deinit { end() }

        /// Ends the connection.
        func end() {
            if socket >= 0 { close(socket) }
            socket = -1
        }

        func send(_ packet: ControlPacket) throws {
            let bytes = packet.encoded(version: .v5)
            let count = Glibc.send(socket, bytes, bytes.count, Int32(truncatingIfNeeded: MSG_NOSIGNAL))
            guard count == bytes.count else { throw Failure(text: "send: \(errno)") }
        }

        /// The next packet; nil when the broker has closed the connection.
        func receive() throws -> ControlPacket? {
            while true {
                let found = try bytes.withUnsafeBytes { bytes -> (ControlPacket, Int)? in
                    guard case .packet(let first, let header, let length) = FrameScan.scan(bytes), header + length <= bytes.count
                    else {
                        return nil
                    }
                    let body = UnsafeRawBufferPointer(rebasing: bytes[header..<header + length])
                    return (try ControlPacket.decode(firstByte: first, body: body, version: .v5, from: .server), header + length)
                }
                if let (packet, length) = found {
                    bytes.removeFirst(length)
                    return packet
                }
                var part = [UInt8](repeating: 0, count: 4096)
                let count = read(socket, &part, part.count)
                guard count >= 0 else { throw Failure(text: "read: \(errno)") }
                if count == 0 { return nil }
                bytes += part[..<count]
            }
        }

        /// Connects, and returns CONNACK.
        func connect(_ identifier: EncodedString) throws -> ConnackPacket {
            try send(.connect(ConnectPacket(clientIdentifier: identifier)))
            guard case .connack(let packet) = try receive() else { throw Failure(text: "no CONNACK") }
            return packet
        }

        func subscribe(_ filter: TopicFilter) throws {
            try send(.subscribe(SubscribePacket(packetIdentifier: 1, subscriptions: [Subscription(filter: filter)])))
            while let packet = try receive() {
                // Messages may come before it.
                if case .suback = packet { return }
            }
            throw Failure(text: "no SUBACK")
        }

        func publish(_ topic: EncodedString, _ text: String) throws {
            try send(.publish(PublishPacket(topic: topic, payload: Array(text.utf8))))
        }

        /// The payload of the next message.
        func text() throws -> String {
            guard case .publish(let packet) = try receive() else { throw Failure(text: "no PUBLISH") }
            return String(decoding: packet.payload, as: UTF8.self)
        }

        /// Reads log lines until one has that in it.
        func awaitLine(_ part: String) throws {
            while !(try text()).contains(part) {}
        }
    }

    private var configuration: BrokerConfiguration {
        var configuration = BrokerConfiguration()
        var listener = ListenerConfiguration(endpoint: .tcp(port: 0, host: "127.0.0.1"))
        listener.security.allowsAnonymous = true
        configuration.listeners = [listener]
        configuration.general.threads = 2
        // As anybody else it would take the rights of the whole test process.
        if geteuid() == 0 { configuration.general.userName = "root" }
        configuration.logging.destinations = [.topic]
        configuration.logging.hasTimestamp = false
        return configuration
    }

    @Test func `it runs on threads of its own, takes clients in, reads its configuration again, and says goodbye`() throws {
        let running = try RunningServer(configuration)
        let operatorClient = try SocketClient(running.port)
        #expect(try operatorClient.connect("operator").reasonCode == .success)
        try operatorClient.subscribe("$SYS/broker/log/#")
        // On both loops, whichever accepts them.
        let clients = try (0..<8).map { number in
            let client = try SocketClient(running.port)
            #expect(try client.connect(EncodedString(stringLiteral: "client \(number)")).reasonCode == .success)
            try client.subscribe("to/all")
            return client
        }
        try clients[0].publish("to/all", "hello")
        for client in clients { #expect(try client.text() == "hello") }

        running.file.withLock { $0.configuration.limits.packet.bytesMax = 1000 }
        running.signal(SIGHUP)
        try operatorClient.awaitLine("Config reloaded.")
        #expect(try SocketClient(running.port).connect("later").properties.maximumPacketSize == 1000)

        running.signal(SIGUSR1)
        try operatorClient.awaitLine("persistence is off")
        running.signal(SIGTERM)
        for client in clients {
            guard case .disconnect(let packet) = try client.receive() else { throw Failure(text: "no DISCONNECT") }
            #expect(packet.reasonCode == .serverShuttingDown)
            #expect(try client.receive() == nil)
        }
        // The operator's log ends with the broker that carries it.
        while try operatorClient.receive() != nil {}
        let port = running.port
        // The loops wait a while for their peers' ends.
        for client in clients + [operatorClient] { client.end() }
        running.join()
        #expect(running.error == nil)
        #expect(throws: Failure.self) { try SocketClient(port) }
    }

    @Test func `a configuration that is broken when it is read again changes nothing`() throws {
        let running = try RunningServer(configuration)
        let client = try SocketClient(running.port)
        #expect(try client.connect("operator").reasonCode == .success)
        try client.subscribe("$SYS/broker/log/#")
        running.file.withLock {
            $0.configuration.limits.packet.bytesMax = 1000
            $0.diagnostics = [Diagnostic(severity: .error, file: "martlet.conf", line: 7, message: "No such option.")]
        }
        running.signal(SIGHUP)
        try client.awaitLine("was not reloaded")
        #expect(try SocketClient(running.port).connect("later").properties.maximumPacketSize != 1000)
        running.signal(SIGINT)
        client.end()
        running.join()
        #expect(running.error == nil)
    }

    @Test func `a port that is taken is told, and nothing runs`() throws {
        let running = try RunningServer(configuration)
        var second = configuration
        second.listeners[0].endpoint = .tcp(port: running.port, host: "127.0.0.1")
        let error = #expect(throws: Failure.self) { try RunningServer(second) }
        #expect(error?.text.contains("127.0.0.1:\(running.port)") == true)
        running.signal(SIGTERM)
        running.join()
    }
}
