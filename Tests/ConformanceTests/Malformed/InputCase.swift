import MQTTCodec
import Testing

/// What a client sends, right or wrong, and what the broker must answer: one line of a table.
struct InputCase: CustomTestStringConvertible, Sendable {
    let version: ProtocolVersion
    let stage: Stage
    let frame: [UInt8]
    let answer: Answer
    let name: String

    /// What came before on the connection.
    enum Stage: String, Sendable {
        /// Nothing.
        case fresh
        /// CONNECT with a clean session, and its CONNACK.
        case connected
    }

    /// What comes back: these bytes, then this end.
    struct Answer: Hashable, Sendable {
        var bytes: [UInt8] = []
        let end: End

        static let close = Answer(end: .close)
        static func connack(_ code: UInt8) -> Answer { Answer(end: .connack(code)) }
        static func disconnect(_ code: UInt8) -> Answer { Answer(end: .disconnect(code)) }
        static let open = Answer(end: .open)
    }

    enum End: Hashable, Sendable {
        /// The connection closes without a word.
        case close
        /// CONNACK with this code, then the connection closes.
        case connack(UInt8)
        /// DISCONNECT with this code, then the connection closes.
        case disconnect(UInt8)
        /// The connection stands.
        case open
    }

    /// A case of one version. Before MQTT 5.0 a server has no DISCONNECT and no codes from 80 on: it closes without a
    /// word.
    init(_ version: ProtocolVersion, _ stage: Stage, _ frame: [UInt8], _ answer: Answer, _ name: String) {
        self.version = version
        self.stage = stage
        self.frame = frame
        let isOf5 =
            switch answer.end {
            case .disconnect: true
            case .connack(let code): code >= 0x80
            case .open, .close: false
            }
        self.answer = isOf5 && version != .v5 ? Answer(bytes: answer.bytes, end: .close) : answer
        self.name = name
    }

    var testDescription: String { "\(version) \(stage): \(name): \(Frame(frame))" }
}
