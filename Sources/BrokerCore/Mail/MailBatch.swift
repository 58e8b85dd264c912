/// What one shard has to tell another at the end of a turn, in order.
///
/// Messages travel as bytes, each behind a `MailHeader`: no object and no reference count crosses threads with them. The rest, rare,
/// are `Parcel` values; a header of kind `.parcel` marks their place in the order.
///
/// Filled by one shard, then given to another and never touched again: hence unchecked.
public final class MailBatch: @unchecked Sendable {
    private var block: UnsafeMutableRawPointer
    private var capacity: Int
    public private(set) var byteCount = 0
    private(set) var parcels: [Parcel] = []
    /// The number under which the receiver is to confirm that what it made of the batch is durable; 0 for no need.
    var serial: UInt64 = 0

    init(capacity: Int = 4096) {
        self.capacity = capacity
        block = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit { block.deallocate() }

    var isEmpty: Bool { byteCount == 0 }

    func append(_ parcel: Parcel) {
        parcels.append(parcel)
        append(MailHeader(kind: .parcel))
    }

    /// Adds a message; the lengths in `header` are those of the three parts.
    func append(
        _ header: MailHeader, topic: UnsafeRawBufferPointer, properties: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer
    ) {
        append(header)
        for part in [topic, properties, payload] {
            guard let source = part.baseAddress, part.count > 0 else { continue }
            reserve(part.count)
            (block + byteCount).copyMemory(from: source, byteCount: part.count)
            byteCount += part.count
        }
    }

    /// Calls `body` with each header and the bytes behind it, in order.
    func forEach(_ body: (MailHeader, UnsafeRawPointer) -> Void) {
        var offset = 0
        while offset < byteCount {
            let header = (block + offset).loadUnaligned(as: MailHeader.self)
            offset += MemoryLayout<MailHeader>.size
            body(header, UnsafeRawPointer(block + offset))
            offset += Int(header.topicLength) + Int(header.propertiesLength) + Int(header.payloadLength)
        }
    }

    private func append(_ header: MailHeader) {
        reserve(MemoryLayout<MailHeader>.size)
        (block + byteCount).storeBytes(of: header, as: MailHeader.self)
        byteCount += MemoryLayout<MailHeader>.size
    }

    private func reserve(_ count: Int) {
        guard capacity - byteCount < count else { return }
        while capacity - byteCount < count { capacity *= 2 }
        let larger = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
        larger.copyMemory(from: block, byteCount: byteCount)
        block.deallocate()
        block = larger
    }
}
