/// A ban as a row of the table `run`, by a number of its own.
public struct StoredBan: Equatable, Sendable {
    public let ban: Ban

    public init(_ ban: Ban) { self.ban = ban }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        var reader = RecordReader(body)
        guard let place = reader.read(UInt8.self), place < Self.kinds.count, let who = Self.text(&reader),
            let target = BanTarget(Self.kinds[Int(place)], who), target.who == who, let by = Self.text(&reader),
            let reason = Self.text(&reader), let at = reader.read(UInt64.self), let until = reader.read(UInt64.self), reader.isAtEnd
        else { return nil }
        ban = Ban(target, by: by, reason: reason, at: at, until: until == .max ? nil : until)
    }

    public func encoded() -> [UInt8] {
        var writer = RecordWriter()
        writer.write(UInt8(Self.kinds.firstIndex(of: ban.target.kind) ?? 0))
        for text in [ban.target.who, ban.by, ban.reason] { writer.write(Array(text.utf8)) }
        writer.write(ban.at)
        writer.write(ban.until ?? .max)
        return writer.bytes
    }

    private static func text(_ reader: inout RecordReader) -> String? {
        reader.readBytes().flatMap { String(validating: $0, as: UTF8.self) }
    }

    /// The store knows them by their places.
    private static let kinds: [BanKind] = [.client, .user, .address, .network]
}
