import MQTTCodec

/// Bytes of one direction, cut into packets. A class, because what a packet brings about may empty the buffer that it
/// lies in.
final class PacketBuffer {
    private var bytes: [UInt8] = []
    private var head = 0
    /// Counts how often the buffer was emptied, so that `drain` notices.
    private var generation = 0
    /// How many bytes are still to come of a packet that is not kept.
    private var unkept = 0

    var count: Int { bytes.count - head }

    func append(_ arrived: UnsafeRawBufferPointer) {
        let more = UnsafeRawBufferPointer(rebasing: arrived.dropFirst(unkept))
        unkept -= arrived.count - more.count
        if head == bytes.count {
            bytes.removeAll(keepingCapacity: true)
            head = 0
        }
        bytes.append(contentsOf: more)
    }

    func removeAll() {
        (bytes, head, unkept) = ([], 0, 0)
        generation += 1
    }

    /// Gives each complete packet to `body`, which may empty the buffer and must not append to it: its first byte, and
    /// its body. Returns false if there is no packet where one should begin.
    ///
    /// - Parameters:
    ///   - sizeMax: bytes of a packet's body; a larger one is not kept.
    ///   - tooLarge: is given the first byte and the beginning of the body of one that is too large: 65,539 bytes at
    ///     least.
    ///   - body: returns false to be given the packet again later.
    func drain(
        sizeMax: Int = .max, tooLarge: (_ firstByte: UInt8, _ body: UnsafeRawBufferPointer) -> Void = { _, _ in },
        _ body: (_ firstByte: UInt8, _ body: UnsafeRawBufferPointer, _ size: Int) -> Bool
    ) -> Bool {
        var current: [UInt8] = []
        swap(&current, &bytes)
        let began = generation
        var isLegible = true
        var position = head
        current.withUnsafeBytes { all in
            while position < all.count, generation == began {
                let rest = UnsafeRawBufferPointer(rebasing: all[position...])
                switch FrameScan.scan(rest) {
                case .malformed:
                    isLegible = false
                    return
                case .incomplete: return
                case .packet(let firstByte, let header, let length) where length > sizeMax:
                    let there = min(length, rest.count - header)
                    guard there >= Limits.publishBeginningBytesMax else { return }
                    position += header + there
                    unkept = length - there
                    tooLarge(firstByte, UnsafeRawBufferPointer(rebasing: rest[header..<header + there]))
                case .packet(let firstByte, let header, let length):
                    guard header + length <= rest.count,
                        body(firstByte, UnsafeRawBufferPointer(rebasing: rest[header..<header + length]), header + length)
                    else { return }
                    position += header + length
                }
            }
        }
        guard generation == began else { return true }
        swap(&current, &bytes)
        head = position
        if head == bytes.count {
            bytes.removeAll(keepingCapacity: bytes.count <= Limits.keptBufferBytesMax)
            head = 0
        } else if head > Limits.keptBufferBytesMax {
            bytes.removeFirst(head)
            head = 0
        }
        return isLegible
    }
}

extension Limits {
    /// The most bytes of a PUBLISH's body up to its properties: a topic with its length, and a packet identifier.
    static let publishBeginningBytesMax = 2 + 65_535 + 2

    /// Bytes of an emptied buffer that are kept.
    static let keptBufferBytesMax = 256 << 10
}
