import MQTTCodec
import MartletTestKit
import Testing

/// A client whose every byte the test says, and checks, in the notation of `Frame`.
final class WireClient {
    let connection: SimulatedConnection
    let version: ProtocolVersion
    private let broker: SimulatedBroker
    /// What came and was not compared yet.
    private var received: [UInt8] = []

    /// Opens a connection and sends nothing.
    init(_ broker: SimulatedBroker, _ version: ProtocolVersion = .v311) {
        self.broker = broker
        self.version = version
        connection = broker.open()
        connection.version = version
    }

    /// Connects, and expects to be let in.
    convenience init(
        _ broker: SimulatedBroker, as identifier: String, _ version: ProtocolVersion = .v311, clean: Bool = true,
        keepAlive: UInt8 = 0,
        isPresent: Bool = false, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        self.init(broker, version)
        let head = version == .v31 ? "'MQIsdp' 03" : "'MQTT' $"
        let flags = clean ? "02" : "00"
        connection.send(Frame("10 { \(head) \(flags) 00 \(Frame.hexadecimal(keepAlive)) ~ '\(identifier)' }", version).bytes)
        broker.settle()
        let answer = connection.takeBytes()
        let connack: [UInt8] = [0x20, 2, isPresent ? 1 : 0, 0]
        let isAdmitted = version == .v5 ? answer.dropFirst(2).starts(with: connack[2...]) : answer.starts(with: connack)
        #expect(isAdmitted, "CONNACK is \(Frame(answer))", sourceLocation: sourceLocation)
        // What waited for the client may have come with it.
        received = version == .v5 ? [] : Array(answer.dropFirst(4))
    }

    /// Sends, lets the broker settle, and compares what came back.
    func exchange(_ sent: String, _ answer: String = "", sourceLocation: SourceLocation = #_sourceLocation) {
        connection.send(Frame(sent, version).bytes)
        expect(answer, sourceLocation: sourceLocation)
    }

    /// Lets the broker settle, and compares what came since the last look.
    func expect(_ answer: String, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(Frame(takeAll()) == Frame(answer, version), sourceLocation: sourceLocation)
    }

    /// Lets the broker settle, and takes what came since the last look.
    func takeAll() -> [UInt8] {
        broker.settle()
        defer { received = [] }
        return received + connection.takeBytes()
    }

    /// Sends, and expects the connection to end, with this answer first.
    func expectEnd(after sent: String, _ answer: String = "", sourceLocation: SourceLocation = #_sourceLocation) {
        exchange(sent, answer, sourceLocation: sourceLocation)
        #expect(connection.isClosed, "the connection stands after \(sent)", sourceLocation: sourceLocation)
    }

    /// The network fails.
    func lose() {
        connection.close()
        broker.settle()
    }
}

extension WireClient {
    /// Expects each of these bytes, sent on a connection of its own, to end it.
    ///
    /// - Parameter isConnected: whether a CONNECT comes before.
    static func expectEnds(
        _ inputs: [String], _ answer: String = "", isConnected: Bool = true, _ version: ProtocolVersion = .v311,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let broker = SimulatedBroker()
        for input in inputs {
            let client = isConnected ? WireClient(broker, as: "c", version) : WireClient(broker, version)
            client.expectEnd(after: input, answer, sourceLocation: sourceLocation)
        }
    }
}
