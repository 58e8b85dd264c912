/// The cluster whose retained messages the store has, as a row of the table `run`: what is there and not in the cluster was deleted, and
/// does not go into it again.
public struct StoredMembership: Equatable, Sendable {
    public static let key: UInt64 = 128

    public let cluster: String

    public init(cluster: String) { self.cluster = cluster }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        var reader = RecordReader(body)
        guard let name = reader.readBytes().flatMap({ String(validating: $0, as: UTF8.self) }), reader.isAtEnd else { return nil }
        cluster = name
    }

    public func encoded() -> [UInt8] {
        var writer = RecordWriter()
        writer.write(Array(cluster.utf8))
        return writer.bytes
    }
}
