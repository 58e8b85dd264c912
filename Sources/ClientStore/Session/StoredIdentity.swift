/// Who a client is, as its store knows.
///
///     key: "client", body: client identifier │ "own": 8 random bytes │ "run": how often the store was opened, 8
public struct StoredIdentity: Sendable {
    /// The name that the server knew the client by; nil in a new store.
    public var clientIdentifier: String?
    /// Random, for as long as the store lives.
    public let own: UInt64
    /// How often a client has had the store, this time with it.
    public let run: UInt64

    /// Reads it; makes one up in a new store.
    public init(in storage: any ClientStorage, random: () -> UInt64) throws(StoreError) {
        var known: [String: [UInt8]] = [:]
        for row in try storage.rows(StoreQuery(.identity)).rows {
            if let name = row.key.text(behind: StoreKey()) { known[String(decoding: name, as: UTF8.self)] = row.body }
        }
        clientIdentifier = known["client"].map { String(decoding: $0, as: UTF8.self) }
        own = Self.number(known["own"]) ?? random()
        // A row that is damaged must not let an earlier run's identifiers come again.
        run = (Self.number(known["run"]) ?? (known.isEmpty ? 0 : random() >> 16)) + 1
    }

    /// What is to be written when a client has the store.
    public var changes: [StoreChange] {
        var changes: [StoreChange] = [
            .put(.identity, StoreKey("own"), Self.bytes(own)), .put(.identity, StoreKey("run"), Self.bytes(run)),
        ]
        if let clientIdentifier { changes.append(.put(.identity, StoreKey("client"), Array(clientIdentifier.utf8))) }
        return changes
    }

    /// What identifiers of messages begin with: no other client's do, nor this one's in another run.
    public var messagePrefix: String { "\(String(own, radix: 36))-\(String(run, radix: 36))" }

    private static func number(_ body: [UInt8]?) -> UInt64? {
        guard let body else { return nil }
        var reader = RowReader(body)
        return reader.number(UInt64.self)
    }

    private static func bytes(_ number: UInt64) -> [UInt8] {
        var writer = RowWriter()
        writer.write(number)
        return writer.bytes
    }
}
