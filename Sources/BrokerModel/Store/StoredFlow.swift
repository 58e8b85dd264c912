/// How far a QoS 1 or 2 message has come to its receiver, where the entry itself does not say: its row has the entry's number.
public struct StoredFlow: Equatable, Sendable {
    public enum State: UInt8, Sendable {
        /// PUBLISH may have been sent with this packet identifier.
        case sent = 1
        /// PUBREC came: PUBREL goes out, the message does not.
        case released
    }

    public var state: State
    public var packetIdentifier: UInt16

    package static let size = 3

    public init(state: State, packetIdentifier: UInt16) {
        self.state = state
        self.packetIdentifier = packetIdentifier
    }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        var reader = RecordReader(body)
        guard let state = reader.read(UInt8.self).flatMap({ State(rawValue: $0) }), let identifier = reader.read(UInt16.self),
            identifier > 0, reader.isAtEnd
        else { return nil }
        self.init(state: state, packetIdentifier: identifier)
    }

    /// `target` has room for `size` bytes.
    package func write(to target: UnsafeMutableRawPointer) {
        target.storeBytes(of: state.rawValue, as: UInt8.self)
        target.storeBytes(of: packetIdentifier, toByteOffset: 1, as: UInt16.self)
    }

    public func encoded() -> [UInt8] {
        var writer = RecordWriter()
        writer.write(state.rawValue)
        writer.write(packetIdentifier)
        return writer.bytes
    }
}
