/// What one shard has to tell another at the end of a turn, in order.
///
/// Messages travel as bytes, each behind a `ShardMessageHeader`: no object and no reference count crosses threads with
/// them. The rest, rare, are `ShardMessage` values; a header of kind `.shardMessage` marks their place in the order.
///
/// Filled by one shard, then given to another and never touched again: hence unchecked.
public final class ShardMessageBatch: @unchecked Sendable {
    private var block: UnsafeMutableRawPointer
    private var capacity: Int
    public private(set) var byteCount = 0
    private(set) var shardMessages: [ShardMessage] = []
    /// The number under which the receiver is to confirm that what it made of the batch is durable; 0 for no need.
    var serial: UInt64 = 0
    /// When the turn began in which it was filled, in microseconds on the shards' clock.
    var readAt: UInt64 = 0

    /// - Parameter expected: how many bytes there will be, as far as anybody can tell.
    init(expected: Int = 0) {
        capacity = max(Self.capacityMin, expected + expected / 8)
        block = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit { block.deallocate() }

    var isEmpty: Bool { byteCount == 0 }
    private static let capacityMin = 4096

    func append(_ shardMessage: ShardMessage) {
        shardMessages.append(shardMessage)
        append(ShardMessageHeader.shardMessage)
    }

    /// Adds a message.
    func append(_ publication: borrowing Publication, as kind: ShardMessageHeader.Kind, _ detail: ShardMessageDetail? = nil) {
        reserve(MemoryLayout<ShardMessageHeader>.size + MemoryLayout<ShardMessageDetail>.size + publication.byteCount)
        append(ShardMessageHeader(kind: kind, publication, hasDetail: detail != nil))
        if let detail { append(detail) }
        append(publication.topic)
        append(publication.properties)
        append(publication.payload)
    }

    /// Adds what there is room for.
    @inline(__always)
    private func append(_ part: UnsafeRawBufferPointer) {
        guard let source = part.baseAddress else { return }
        (block + byteCount).copyMemory(from: source, byteCount: part.count)
        byteCount &+= part.count
    }

    /// Calls `body` with each header, what it has of details, and the bytes behind them, in order.
    func forEach(_ body: (ShardMessageHeader, ShardMessageDetail, UnsafeRawPointer) -> Void) {
        var offset = 0
        while offset < byteCount {
            let header = (block + offset).loadUnaligned(as: ShardMessageHeader.self)
            offset += MemoryLayout<ShardMessageHeader>.size
            var detail = ShardMessageDetail()
            if header.hasDetail {
                detail = (block + offset).loadUnaligned(as: ShardMessageDetail.self)
                offset += MemoryLayout<ShardMessageDetail>.size
            }
            body(header, detail, UnsafeRawPointer(block + offset))
            offset += Int(header.topicLength) + Int(header.propertiesLength) + Int(header.payloadLength)
        }
    }

    @inline(__always)
    private func append<Value: BitwiseCopyable>(_ value: Value) {
        reserve(MemoryLayout<Value>.size)
        (block + byteCount).storeBytes(of: value, as: Value.self)
        byteCount &+= MemoryLayout<Value>.size
    }

    @inline(__always)
    private func reserve(_ count: Int) {
        if capacity &- byteCount < count { grow(count) }
    }

    private func grow(_ count: Int) {
        while capacity - byteCount < count { capacity *= 2 }
        let larger = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
        larger.copyMemory(from: block, byteCount: byteCount)
        block.deallocate()
        block = larger
    }
}
