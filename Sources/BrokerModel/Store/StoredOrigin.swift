public import MQTTCodec

/// The publisher of a retained message, as the store keeps it: by this `check_retain_source` decides whether it is
/// handed out.
///
///     format 2 | whether there is a user name 1 | the Client Identifier, the user name and the listener's name, each behind its length in 4
///     format 1 | the listener's place 2 | whether there is a user name 1 | the Client Identifier and the user name
public struct StoredOrigin: Hashable, Sendable {
    public var clientIdentifier: EncodedString
    public var userName: EncodedString?
    public var listener: StoredListener

    public init(clientIdentifier: EncodedString, userName: EncodedString?, listener: StoredListener) {
        self.clientIdentifier = clientIdentifier
        self.userName = userName
        self.listener = listener
    }

    package init?(_ reader: inout RecordReader) {
        guard let format = reader.read(UInt8.self), format == Self.placed || format == Self.named else { return nil }
        let place = format == Self.placed ? reader.read(UInt16.self) : 0
        guard let place, let hasUserName = reader.readBool(), let identifier = reader.readBytes().flatMap({ EncodedString($0) })
        else { return nil }
        self.init(clientIdentifier: identifier, userName: nil, listener: .place(place))
        if hasUserName {
            guard let name = reader.readBytes().flatMap({ EncodedString($0) }) else { return nil }
            userName = name
        }
        guard format == Self.named else { return }
        guard let name = reader.readBytes() else { return nil }
        listener = .name(String(decoding: name, as: UTF8.self))
    }

    package func write(to writer: inout RecordWriter) {
        switch listener {
        case .place(let place):
            writer.write(Self.placed)
            writer.write(place)
        case .name: writer.write(Self.named)
        }
        writer.write(userName != nil)
        writer.write(clientIdentifier.bytes)
        if let userName { writer.write(userName.bytes) }
        if case .name(let name) = listener { writer.write(Array(name.utf8)) }
    }

    package func encoded() -> [UInt8] {
        var writer = RecordWriter()
        write(to: &writer)
        return writer.bytes
    }

    private static let placed: UInt8 = 1
    private static let named: UInt8 = 2
}
