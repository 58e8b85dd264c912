/// Up to where a shard's sessions have been given what stands in a cluster's log: a row of the table `run`, with a key for each shard.
///
/// It stands in one batch with the rows of the messages that were given, so that after a crash reading goes on where the queues end.
public struct StoredLogPlaces: Equatable, Sendable {
    public var places: LogPlaces

    public init(_ places: LogPlaces) { self.places = places }

    /// Numbers of other rows of the table are 1 and from 256 on.
    package static func key(shard: Int) -> UInt64 { 2 + UInt64(shard) }

    /// The shard whose row has this key; nil for another row.
    package static func shard(ofKey key: UInt64) -> Int? {
        (2..<2 + UInt64(SharedLimits.shardsMax)).contains(key) ? Int(key - 2) : nil
    }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        var reader = RecordReader(body)
        guard let count = reader.read(UInt8.self), count > 0 else { return nil }
        places = LogPlaces(partitions: Int(count))
        for partition in 0..<Int(count) {
            guard let sequence = reader.read(UInt64.self), let stream = reader.read(UInt64.self) else { return nil }
            if stream != 0 { places.places[partition] = LogPlaces.Place(sequence: sequence, stream: stream) }
        }
        guard reader.isAtEnd else { return nil }
    }

    public func encoded() -> [UInt8] {
        var writer = RecordWriter()
        writer.write(UInt8(places.places.count))
        for place in places.places {
            writer.write(place?.sequence ?? 0)
            writer.write(place?.stream ?? 0)
        }
        return writer.bytes
    }
}
