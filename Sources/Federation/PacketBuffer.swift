import MQTTCodec

/// Bytes of one direction, cut into packets. A class, because what a packet brings about may empty the buffer that it lies in.
final class PacketBuffer {
    private var bytes: [UInt8] = []
    private var head = 0
    /// Grows when the buffer is emptied.
    private var generation = 0

    var count: Int { bytes.count - head }

    func append(_ more: UnsafeRawBufferPointer) {
        if head == bytes.count {
            bytes.removeAll(keepingCapacity: true)
            head = 0
        }
        bytes.append(contentsOf: more)
    }

    func removeAll() {
        (bytes, head) = ([], 0)
        generation += 1
    }

    /// Gives each complete packet to `body`, which may empty the buffer and must not append to it: its first byte, and its body. Returns
    /// false if there is no packet where one should begin, or one that is too large.
    ///
    /// - Parameters:
    ///   - sizeMax: bytes of a packet's body; a larger one is not waited for.
    ///   - body: returns false to be given the packet again later.
    func drain(sizeMax: Int = .max, _ body: (_ firstByte: UInt8, _ body: UnsafeRawBufferPointer, _ size: Int) -> Bool) -> Bool {
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
                case .packet(_, _, let length) where length > sizeMax:
                    isLegible = false
                    return
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
