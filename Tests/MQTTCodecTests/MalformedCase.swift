import MQTTCodec
import Testing

/// Bytes that are no packet, what is wrong with them, and the statement of MQTT 5.0 that says so; empty if it has no id.
struct MalformedCase: CustomTestStringConvertible, Sendable {
    let version: ProtocolVersion
    let peer: Peer
    let frame: Frame
    let error: WireError
    let statement: String

    init(_ version: ProtocolVersion, _ peer: Peer, _ frame: Frame, _ error: WireError, _ statement: String = "") {
        self.version = version
        self.peer = peer
        self.frame = frame
        self.error = error
        self.statement = statement
    }

    var testDescription: String { "\(version) \(error): \(frame)" }

    /// Expects the error, and that the error names the statement.
    func check(sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(frame.decoded(version, from: peer) == .failure(error), sourceLocation: sourceLocation)
        #expect(error.statement.description == statement, sourceLocation: sourceLocation)
    }
}
