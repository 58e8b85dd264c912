import BrokerCore
import MQTTCodec
import MartletTestKit
import Testing

/// Sends inputs to a broker, compares its answers, and sees that it goes on serving others.
struct InputCheck {
    private let broker: SimulatedBroker
    private let witness: TestClient
    private let delivery: ByteDelivery

    init(shards: Int, delivery: ByteDelivery = .joined) {
        broker = SimulatedBroker(shards: shards)
        witness = broker.connected("witness", version: .v311)
        witness.subscribe("witness/#", qos: .exactlyOnce)
        self.delivery = delivery
    }

    /// Sends every case, each on a connection of its own.
    func run(_ cases: [InputCase]) {
        for input in cases { run(input) }
    }

    private func run(_ input: InputCase) {
        let connection = broker.open()
        if input.stage == .connected {
            let name = input.version == .v31 ? "'MQIsdp'" : "'MQTT'"
            connection.send(Frame("10 { \(name) $ 02 0000 ~ 'input' }", input.version).bytes)
            broker.settle()
            let connack = connection.takeBytes()
            if connack.count < 4 || connack[3] != 0 { Issue.record("\(input.testDescription): CONNECT got \(Frame(connack))") }
        }
        connection.delivery = delivery
        connection.send(input.frame)
        broker.settle()
        if let complaint = complaint(input, connection.takeBytes(), isClosed: connection.isClosed) {
            Issue.record("\(input.testDescription): \(complaint)")
        }
        connection.close()
        broker.settle()
        expectService(after: input)
    }

    private func complaint(_ input: InputCase, _ received: [UInt8], isClosed: Bool) -> String? {
        guard received.starts(with: input.answer.bytes) else {
            return "\(Frame(received)) does not begin with \(Frame(input.answer.bytes))"
        }
        let rest = Array(received.dropFirst(input.answer.bytes.count))
        if isClosed != (input.answer.end != .open) {
            return "the connection is \(isClosed ? "closed" : "open") after \(Frame(rest))"
        }
        let isRight =
            switch input.answer.end {
            case .open, .close: rest.isEmpty
            case .connack(let code):
                rest.count >= 4 && rest[0] == 0x20 && Int(rest[1]) == rest.count - 2 && rest[2] == 0 && rest[3] == code
            case .disconnect(let code): rest.count >= 3 && rest[0] == 0xE0 && Int(rest[1]) == rest.count - 2 && rest[2] == code
            }
        return isRight ? nil : "expected \(input.answer.end), received \(Frame(rest))"
    }

    private func expectService(after input: InputCase) {
        if !witness.ping() { Issue.record("\(input.testDescription): the witness got no PINGRESP") }
        witness.publish("witness/here", "here", qos: .exactlyOnce)
        let texts = witness.takeMessages().map(\.text)
        if texts != ["here"] { Issue.record("\(input.testDescription): the witness got \(texts)") }
    }
}
