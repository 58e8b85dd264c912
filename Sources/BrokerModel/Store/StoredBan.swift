import MQTTCodec

/// A ban as a row of the table `run`, by a number of its own.
public struct StoredBan: Equatable, Sendable {
    public let ban: Ban

    public init(_ ban: Ban) { self.ban = ban }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        var reader = RecordReader(body)
        guard let place = reader.read(UInt8.self), let who = Self.text(&reader), let by = Self.text(&reader),
            let reason = Self.text(&reader), let at = reader.read(UInt64.self), let until = reader.read(UInt64.self),
            let target = place == Self.scopedKind ? Self.scoped(who, &reader) : Self.whole(place, who), reader.isAtEnd
        else { return nil }
        ban = Ban(target, by: by, reason: reason, at: at, until: until == .max ? nil : until)
    }

    public func encoded() -> [UInt8] {
        var writer = RecordWriter()
        let scope = ban.target.scope
        writer.write(scope == nil ? UInt8(Self.kinds.firstIndex(of: ban.target.kind) ?? 0) : Self.scopedKind)
        for text in [ban.target.who, ban.by, ban.reason] { writer.write(Array(text.utf8)) }
        writer.write(ban.at)
        writer.write(ban.until ?? .max)
        if let scope {
            writer.write(Array(scope.party.utf8))
            writer.write(UInt8(scope.user == nil ? 0 : 1))
            writer.write(scope.user?.bytes ?? [])
        }
        return writer.bytes
    }

    private static func whole(_ place: UInt8, _ who: String) -> BanTarget? {
        guard place < kinds.count, let target = BanTarget(kinds[Int(place)], who), target.who == who else { return nil }
        return target
    }

    private static func scoped(_ who: String, _ reader: inout RecordReader) -> BanTarget? {
        guard let client = EncodedString(who), let party = text(&reader), let hasUser = reader.read(UInt8.self), hasUser < 2,
            let user = reader.readBytes().flatMap({ EncodedString($0) }), hasUser == 1 || user.isEmpty
        else { return nil }
        return BanTarget(client: client, BanScope(user: hasUser == 1 ? user : nil, party: party))
    }

    private static func text(_ reader: inout RecordReader) -> String? {
        reader.readBytes().flatMap { String(validating: $0, as: UTF8.self) }
    }

    /// The store knows them by their places.
    private static let kinds: [BanKind] = [.client, .user, .address, .network]
    /// A client as one user comes with it from one address.
    private static let scopedKind: UInt8 = 4
}
