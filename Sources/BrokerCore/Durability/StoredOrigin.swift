public import MQTTCodec

/// Whose a retained message is, as the store keeps it: by this `check_retain_source` decides whether it is handed out.
///
///     format 1 | listener 2 | whether there is a user name 1 | the Client Identifier and the user name, each behind its length in 4
public struct StoredOrigin: Hashable, Sendable {
    public var clientIdentifier: EncodedString
    public var userName: EncodedString?
    /// The listener's place in the configuration.
    public var listener: UInt16

    public init(clientIdentifier: EncodedString, userName: EncodedString?, listener: UInt16) {
        self.clientIdentifier = clientIdentifier
        self.userName = userName
        self.listener = listener
    }

    init?(_ reader: inout RecordReader) {
        guard reader.read(UInt8.self) == Self.format, let listener = reader.read(UInt16.self), let hasUserName = reader.readBool(),
            let identifier = reader.readBytes().flatMap({ EncodedString($0) })
        else { return nil }
        self.init(clientIdentifier: identifier, userName: nil, listener: listener)
        guard hasUserName else { return }
        guard let name = reader.readBytes().flatMap({ EncodedString($0) }) else { return nil }
        userName = name
    }

    func write(to writer: inout RecordWriter) {
        writer.write(Self.format)
        writer.write(listener)
        writer.write(userName != nil)
        writer.write(clientIdentifier.bytes)
        if let userName { writer.write(userName.bytes) }
    }

    func encoded() -> [UInt8] {
        var writer = RecordWriter()
        write(to: &writer)
        return writer.bytes
    }

    private static let format: UInt8 = 1
}
