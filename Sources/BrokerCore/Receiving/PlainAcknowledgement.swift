import MQTTCodec

/// PUBACK, PUBREC, PUBREL and PUBCOMP as they nearly always are: four bytes, without a reason.
///
///     [ type and flags ][ 2 ][ packet identifier, 2 bytes ]
enum PlainAcknowledgement {
    /// The first two bytes.
    enum Head: UInt16 {
        case puback = 0x4002
        case pubrec = 0x5002
        case pubrel = 0x6202
        case pubcomp = 0x7002

        /// The first two bytes of a packet that has a reason, and so one byte more.
        var withReason: UInt16 { rawValue + 1 }

        var packetType: PacketType {
            switch self {
            case .puback: .puback
            case .pubrec: .pubrec
            case .pubrel: .pubrel
            case .pubcomp: .pubcomp
            }
        }

        init?(_ type: PacketType) {
            switch type {
            case .puback: self = .puback
            case .pubrec: self = .pubrec
            case .pubrel: self = .pubrel
            case .pubcomp: self = .pubcomp
            default: return nil
            }
        }
    }

    static let byteCount = 4

    /// What stands at `offset`, if it is one of them, and whole.
    @inline(__always)
    static func head(of bytes: UnsafeRawBufferPointer, at offset: Int) -> Head? {
        guard bytes.count &- offset >= byteCount else { return nil }
        return Head(rawValue: bytes.loadUnaligned(fromByteOffset: offset, as: UInt16.self).bigEndian)
    }

    /// Calls `body` with the packet identifiers of those at the front that begin with `head`, until it says that one is
    /// the last. One that is 0 is malformed, and left to those who say so. [MQTT-2.2.1-3 v5]
    ///
    /// - Returns: how many it was called for.
    @inline(__always)
    static func run(_ bytes: UnsafeRawBufferPointer, _ head: Head, _ body: (UInt16) -> Bool) -> Int {
        var count = 0
        while bytes.count &- count &* byteCount >= byteCount {
            let word = bytes.loadUnaligned(fromByteOffset: count &* byteCount, as: UInt32.self).bigEndian
            let packetIdentifier = UInt16(truncatingIfNeeded: word)
            guard word >> 16 == UInt32(head.rawValue), packetIdentifier != 0 else { break }
            count &+= 1
            guard body(packetIdentifier) else { break }
        }
        return count
    }
}

extension OutputBuffer {
    /// Adds an acknowledgement in its shortest form.
    @inline(__always)
    mutating func append(_ head: PlainAcknowledgement.Head, _ packetIdentifier: UInt16, pool: inout BufferPool) {
        assert(packetIdentifier != 0, "0 names no packet [MQTT-2.2.1-3 v5]")
        let word = UInt32(head.rawValue) << 16 | UInt32(packetIdentifier)
        appendOwn(PlainAcknowledgement.byteCount, pool: &pool).storeBytes(of: word.bigEndian, as: UInt32.self)
    }

    /// Adds an acknowledgement of 5.0 with a reason, without properties.
    mutating func append(
        _ head: PlainAcknowledgement.Head, _ packetIdentifier: UInt16, _ reason: ReasonCode, pool: inout BufferPool
    ) {
        append(head.withReason, packetIdentifier, pool: &pool)
        appendOwn(1, pool: &pool).storeBytes(of: reason.rawValue, as: UInt8.self)
    }

    /// Adds PINGRESP.
    mutating func appendPingresp(pool: inout BufferPool) {
        appendOwn(2, pool: &pool).storeBytes(of: UInt16(0xd000).bigEndian, as: UInt16.self)
    }

    private mutating func append(_ head: UInt16, _ packetIdentifier: UInt16, pool: inout BufferPool) {
        let word = UInt32(head) << 16 | UInt32(packetIdentifier)
        appendOwn(PlainAcknowledgement.byteCount, pool: &pool).storeBytes(of: word.bigEndian, as: UInt32.self)
    }
}
