import MQTTCodec

/// A PUBLISH encoded once and sent many times: only its packet identifier and its stamp change.
///
///     ┌────────┬───────┬────────────┬────────────┬───────┬─────────────────────┐
///     │ header │ topic │ identifier │ properties │ stamp │ rest of the payload │
///     └────────┴───────┴────────────┴────────────┴───────┴─────────────────────┘
///     └──────────────────── copied ──────────────────────┘ copied up to 4 KiB, else lent from the filler
///
/// Belongs to one publisher: the numbers that it stamps are those of one publisher on one topic.
final class PublishTemplate {
    let qos: QoS
    /// The bytes that are copied for each PUBLISH.
    let head: UnsafeMutableRawPointer
    let headCount: Int
    let identifierOffset: Int
    let payloadOffset: Int
    let payloadCount: Int
    let tailCount: Int
    /// Keeps alive what is lent.
    let filler: PayloadFiller
    let publisher: UInt32
    var number: UInt32 = 0

    /// - Parameters:
    ///   - publisher: the index that the stamp names.
    ///   - filler: what payloads consist of; its size is theirs.
    init(
        topic: TopicName, filler: PayloadFiller, qos: QoS = .atMostOnce, retain: Bool = false,
        version: ProtocolVersion = .v311, publisher: Int = 0
    ) {
        let size = PublishHeader.encodedSize(
            version: version, qos: qos, topicLength: topic.bytes.count, propertiesLength: 0, payloadLength: filler.count)
        let copied = filler.count <= Self.copiedPayloadMax ? filler.count : PayloadStamp.byteCount
        let memory = UnsafeMutableRawPointer.allocate(byteCount: size - filler.count + copied, alignment: 16)
        let offsets = topic.bytes.withUnsafeBytes { bytes in
            PublishHeader(version: version, qos: qos, retain: retain, duplicate: false).write(
                to: memory, topic: bytes, packetIdentifier: 0, propertiesLength: 0, payloadLength: filler.count)
        }
        (memory + offsets.propertiesOffset).copyMemory(from: filler.base, byteCount: copied)
        self.qos = qos
        self.filler = filler
        self.publisher = UInt32(truncatingIfNeeded: publisher)
        head = memory
        headCount = offsets.propertiesOffset + copied
        identifierOffset = offsets.packetIdentifierOffset
        payloadOffset = offsets.propertiesOffset
        payloadCount = filler.count
        tailCount = filler.count - copied
    }

    deinit { head.deallocate() }

    /// How many bytes one PUBLISH takes.
    var byteCount: Int { headCount + tailCount }

    /// The bytes that `head` lacks: where the filler has them.
    @inline(__always)
    var tail: UnsafeRawPointer { UnsafeRawPointer(filler.base) + (payloadCount &- tailCount) }

    /// Writes the part that is copied.
    @inline(__always)
    func write(to memory: UnsafeMutableRawPointer, packetIdentifier: UInt16, stamp: UInt64) {
        memory.copyMemory(from: head, byteCount: headCount)
        if identifierOffset > 0 {
            memory.storeBytes(of: packetIdentifier.bigEndian, toByteOffset: identifierOffset, as: UInt16.self)
        }
        if payloadCount >= PayloadStamp.byteCount {
            memory.storeBytes(of: stamp, toByteOffset: payloadOffset, as: UInt64.self)
            memory.storeBytes(of: publisher, toByteOffset: payloadOffset &+ PayloadStamp.publisherOffset, as: UInt32.self)
            memory.storeBytes(of: number, toByteOffset: payloadOffset &+ PayloadStamp.numberOffset, as: UInt32.self)
            number &+= 1
        } else if payloadCount >= PayloadStamp.timeByteCount {
            memory.storeBytes(of: stamp, toByteOffset: payloadOffset, as: UInt64.self)
        }
    }

    /// Larger payloads are not copied: from about here a slice of its own costs the kernel less than the copy costs us.
    private static let copiedPayloadMax = 4096
}

/// Bytes that every payload of a size shares; templates send from it what they do not copy. Immutable.
final class PayloadFiller: @unchecked Sendable {
    let base: UnsafeMutableRawPointer
    let count: Int

    init(count: Int) {
        self.count = count
        base = .allocate(byteCount: max(count, 1), alignment: 16)
        base.initializeMemory(as: UInt8.self, repeating: UInt8(ascii: "x"), count: count)
    }

    deinit { base.deallocate() }
}

/// The first 16 bytes of a payload that is measured: when it was meant to be sent, by whom, and which it is.
///
///     ┌────────────────── 8 ──────────────────┬──────── 4 ────────┬──────── 4 ───────┐
///     │ nanoseconds of the publisher's clock  │ publisher's index │ number, from 0   │   (host byte order)
///     └───────────────────────────────────────┴───────────────────┴──────────────────┘
///
/// A payload of 8 to 15 bytes has the time alone, a shorter one nothing.
enum PayloadStamp {
    /// The smallest payload that holds all of it.
    static let byteCount = 16

    static let timeByteCount = 8
    static let publisherOffset = 8
    static let numberOffset = 12
}
